// What a kernel takes of a multiprocessor, as ptxas says: the figures by which candidates are dropped before any GPU
// sees them, and which the cache keeps.
#pragma once

#include <cstdint>

namespace sparsmith {

struct PtxasFigures {
  int registers = 0;  // of a thread
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  std::int64_t stack_bytes = 0;          // of a thread
  std::int64_t static_shared_bytes = 0;  // of a block
};

}  // namespace sparsmith
