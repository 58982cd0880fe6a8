// JSON lines of recorded spaces. What is read is what is written again, and searching it ends.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "search/record/simulation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto spaces = sparsmith::parse_spaces(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!spaces.ok()) return 0;
  for (const sparsmith::RecordedSpace& space : sparsmith::join_spaces(std::move(*spaces))) {
    (void)sparsmith::to_t4(space);
    if (const auto again = sparsmith::parse_spaces(sparsmith::to_json_lines(space)); !again.ok()) std::abort();
    if (sparsmith::best_us(space) > 0) (void)sparsmith::simulate(space, {});
  }
  return 0;
}
