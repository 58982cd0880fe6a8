#include "emulator/kernel_text.h"

#include <fmt/format.h>

namespace sparsmith {

std::string_view device_twin_text() {
  static constexpr char kText[] = {
#include "device_twin.inc"
      0};  // lexers want a terminator
  return {kText, sizeof(kText) - 1};
}

std::string text_with_entry(const std::string& kernel, const std::string& source) {
  // In namespace sparsmith, from where kernels are seen that stand in it and those that stand outside.
  static constexpr const char* kEntry = R"(
#line 1 "emulator entry"
namespace sparsmith {{
extern "C" __attribute__((visibility("default"))) SPARSMITH_UNCHECKED void {1}(const void* const* arguments) {{
  sparsmith_emulator::call(&{0}, arguments, sparsmith_emulator::parameters_of(&{0}));
}}
extern "C" __attribute__((visibility("default"))) const int* const {2};
const int* const {2} = decltype(sparsmith_emulator::parameters_of(&{0}))::bytes;
}}
)";
  return source + fmt::format(kEntry, kernel, kernel_entry_symbol(), kernel_parameters_symbol());
}

}  // namespace sparsmith
