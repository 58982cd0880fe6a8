#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/two_four.h"
#include "tests/fuzz/packed_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sparsmith::fuzz::check_unpacking(std::as_bytes(std::span(data, size)), sparsmith::unpack_two_four);
  return 0;
}
