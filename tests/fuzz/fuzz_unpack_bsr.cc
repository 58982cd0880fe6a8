#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/bsr.h"
#include "tests/fuzz/packed_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sparsmith::fuzz::check_unpacking(std::as_bytes(std::span(data, size)), sparsmith::unpack_bsr);
  return 0;
}
