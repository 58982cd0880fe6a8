// Any text: parsing gives a suite that can be run, or an error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "history/suite.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto suite = sparsmith::parse_suite({reinterpret_cast<const char*>(data), size});
  if (!suite.ok()) return 0;
  if (suite->rounds < 1 || suite->repetitions < 1 || suite->weights.empty()) std::abort();
  for (const sparsmith::SuiteEntry& entry : suite->weights) {
    const bool drawn = entry.file.empty();
    if (drawn && (entry.name.empty() || entry.drawn.rows < 1 || entry.drawn.cols < 1)) std::abort();
    if (entry.tokens.empty() || entry.tokens.front() < 1) std::abort();
  }
  return 0;
}
