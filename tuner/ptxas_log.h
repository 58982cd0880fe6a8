// What `ptxas -v` says of a kernel: the figures by which candidates are dropped before any GPU sees them.
#pragma once

#include <cstdint>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

struct PtxasFigures {
  int registers = 0;  // of a thread
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  std::int64_t stack_bytes = 0;          // of a thread
  std::int64_t static_shared_bytes = 0;  // of a block
};

// Reads the figures of the entry function `kernel` from a compiler's log. Error: kInvalidInput when the log has no
// such entry, or an entry without its registers.
Result<PtxasFigures> parse_ptxas_log(std::string_view log, std::string_view kernel);

}  // namespace sparsmith
