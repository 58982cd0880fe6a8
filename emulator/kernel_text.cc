#include "emulator/kernel_text.h"

#include <fmt/format.h>

#include <string_view>

namespace sparsmith {
namespace {

using std::string_view_literals::operator""sv;

#include "twin_texts.inc"  // kHeaders, by the build

}  // namespace

std::span<const TwinHeader> device_twins() { return kHeaders; }

std::string text_with_entry(const std::string& kernel, const std::string& source) {
  // In namespace sparsmith, from where kernels are seen that stand in it and those that stand outside.
  static constexpr const char* kEntry = R"(
#include "emulator/device_twin/kernel_call.h"
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
