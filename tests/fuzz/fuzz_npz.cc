#include <cstddef>
#include <cstdint>
#include <span>

#include "matrix/npz.h"
#include "tests/fuzz/parsed_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sparsmith::fuzz::expect_refused_or_valid(sparsmith::parse_npz(std::as_bytes(std::span(data, size))));
  return 0;
}
