// Bytes of storage formats against sparsity, with the points where each breaks even with dense.
#pragma once

#include <string>
#include <vector>

#include "matrix/sparsity_statistics.h"
#include "tools/report/page.h"

namespace sparsmith::tools {

// Bytes over the dense weight's, for nonzeros that lie at random in a 4096 x 4096 weight of `type`: one line a format,
// and a note where a line crosses 1. The axes are set; title and points are the caller's.
Figure format_curves(DataType type);

// The same break-evens: "csr_u16" at a sparsity of 0.5 and so on, in the order in which formats begin to pay.
struct BreakEven {
  std::string format;
  double sparsity = 0;
};
std::vector<BreakEven> format_break_evens(DataType type);

}  // namespace sparsmith::tools
