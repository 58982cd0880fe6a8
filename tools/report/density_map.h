// The density of a weight's nonzeros on a grid, coarse enough for a picture.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix/csr_matrix.h"

namespace sparsmith::tools {

// A grid over the weight. Cell (i, j) covers the rows [i M / rows, (i + 1) M / rows) and the columns [j K / cols, (j +
// 1) K / cols).
struct DensityMap {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> density;  // [rows][cols]: the share of nonzeros in the cell
};

// The map has at most `most` cells per side. A smaller weight has one cell per element: a spy plot.
DensityMap density_map(const CsrMatrix& matrix, std::int64_t most);

}  // namespace sparsmith::tools
