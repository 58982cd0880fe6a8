#include <cstddef>
#include <cstdint>
#include <string_view>

#include "matrix/smtx.h"
#include "tests/fuzz/parsed_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sparsmith::fuzz::expect_refused_or_valid(sparsmith::parse_smtx({reinterpret_cast<const char*>(data), size}, 1));
  return 0;
}
