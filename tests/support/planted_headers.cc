#include "tests/support/planted_headers.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/plant.h"

namespace sparsmith {
namespace {

constexpr std::string_view kHeader = "snippets/reduction/slot_sums.cuh";
constexpr std::string_view kBefore = "    ShuffleSum<kLanes, 1>::combine(sums);\n";

// A quarter of a microsecond of one operation waiting for the other. A xorshift of what is not 0 never becomes 0, which
// compilers do not know.
constexpr std::string_view kWork = R"(    unsigned state = static_cast<unsigned>(end) + 1U;
    SPARSMITH_ROLLED for (int i = 0; i < 16; ++i) {
      state ^= state << 13;
      state ^= state >> 17;
      state ^= state << 5;
    }
    if (state == 0) sums.clear();
)";

std::string slowed(std::string_view text) {
  std::string result(text);
  const std::size_t at = result.find(kBefore);
  if (at == std::string::npos) {
    fmt::print(stderr, "{} has changed: planted_headers.cc finds no place for its work\n", kHeader);
    std::exit(2);
  }
  return result.insert(at, kWork);
}

}  // namespace

std::span<const SnippetHeader> planted_headers(std::span<const SnippetHeader> headers) {
  if (!is_planted(Plant::kSlowSnippet)) return headers;
  static std::string text;
  static const std::vector<SnippetHeader> planted = [&] {
    std::vector<SnippetHeader> copy(headers.begin(), headers.end());
    for (SnippetHeader& header : copy) {
      if (header.path != kHeader) continue;
      text = slowed(header.text);
      header.text = text;
    }
    return copy;
  }();
  return planted;
}

}  // namespace sparsmith
