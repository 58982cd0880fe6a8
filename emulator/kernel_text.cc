#include "emulator/kernel_text.h"

#include <fmt/format.h>

namespace sparsmith {

std::string_view device_twin_text() {
  static constexpr char kText[] = {
#include "device_twin.inc"
  };
  return {kText, sizeof(kText)};
}

std::string text_with_entry(const std::string& kernel, const std::string& source) {
  return source + fmt::format(
                      "\n#line 1 \"emulator entry\"\n"
                      "using namespace sparsmith;\n"  // where generated kernels are
                      "extern \"C\" __attribute__((visibility(\"default\"))) SPARSMITH_UNCHECKED void {1}("
                      "const void* const* arguments) {{\n"
                      "  sparsmith_emulator::call(&{0}, arguments, sparsmith_emulator::parameters_of(&{0}));\n"
                      "}}\n"
                      "extern \"C\" __attribute__((visibility(\"default\"))) const int* const {2};\n"
                      "const int* const {2} = decltype(sparsmith_emulator::parameters_of(&{0}))::bytes;\n",
                      kernel, kernel_entry_symbol(), kernel_parameters_symbol());
}

}  // namespace sparsmith
