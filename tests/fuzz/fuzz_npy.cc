#include <cstddef>
#include <cstdint>
#include <span>

#include "matrix/npy.h"
#include "tests/fuzz/parsed_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto array = sparsmith::parse_npy(std::as_bytes(std::span(data, size)));
  if (array.ok()) sparsmith::fuzz::expect_refused_or_valid(sparsmith::csr_from_npy(*array));
  return 0;
}
