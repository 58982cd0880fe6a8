// Any bytes, read as a cubin: what is said of a kernel is consistent.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "runtime/cubin_parameters.h"

namespace sparsmith {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = read_cubin_parameters(std::as_bytes(std::span(data, size)), "kern");
  if (!read.ok()) return 0;
  if (read->max_threads < 0 || read->max_threads > 1024) std::abort();
  std::int64_t end = 0;
  for (const CubinParameters::Parameter& parameter : read->parameters) {
    if (parameter.offset < end || parameter.bytes < 1) std::abort();
    end = parameter.offset + parameter.bytes;
  }
  return 0;
}

}  // namespace sparsmith
