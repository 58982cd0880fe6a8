// The resources of a kernel on a multiprocessor, from ptxas. Candidates are dropped by these figures before they run on
// a GPU. The cache stores them.
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
