// Bytes of storage formats against sparsity, with the break-even points with dense.
#pragma once

#include <string>
#include <vector>

#include "matrix/sparsity_statistics.h"
#include "tools/report/page.h"

namespace sparsmith::tools {

// Bytes of each format / bytes of the dense weight, for random nonzeros in a 4096 x 4096 weight of `type`. There is one
// line for each format, and a note where a line crosses 1. The axes are set; the caller adds the title and points.
Figure format_curves(DataType type);

// The break-even points as a list, for example "csr_u16" at a sparsity of 0.5, in ascending order of sparsity.
struct BreakEven {
  std::string format;
  double sparsity = 0;
};
std::vector<BreakEven> format_break_evens(DataType type);

}  // namespace sparsmith::tools
