// Where the nonzeros of a weight lie, coarse enough for a picture.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix/csr_matrix.h"

namespace sparsmith::tools {

// A grid over the weight. Cell (i, j) covers the rows [i M / rows, (i + 1) M / rows) and the columns likewise.
struct DensityMap {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> density;  // [rows][cols]: the share of nonzeros in the cell
};

// At most `most` cells a side; a weight smaller than that has a cell for each element: a spy plot.
DensityMap density_map(const CsrMatrix& matrix, std::int64_t most);

}  // namespace sparsmith::tools
