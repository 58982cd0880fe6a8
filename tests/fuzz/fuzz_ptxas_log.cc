// A first line that names the kernel, and any log.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tuner/compile/kernel_compiler.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return 0;
  (void)sparsmith::parse_ptxas_log(text.substr(end + 1), text.substr(0, end));
  return 0;
}
