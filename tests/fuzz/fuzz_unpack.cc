// The readers of packed weights. A target for each format, which differ in their seeds.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/packed_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sparsmith::fuzz::check_reading(std::as_bytes(std::span(data, size)));
  return 0;
}
