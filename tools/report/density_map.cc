#include "tools/report/density_map.h"

#include <algorithm>

namespace sparsmith::tools {
namespace {

// First of the elements that part `part` of `parts` covers.
std::int64_t begin_of(std::int64_t part, std::int64_t parts, std::int64_t elements) { return part * elements / parts; }

std::vector<std::int64_t> parts_of(std::int64_t elements, std::int64_t parts) {
  std::vector<std::int64_t> part_of(elements);
  for (std::int64_t part = 0; part < parts; ++part) {
    std::fill(part_of.begin() + begin_of(part, parts, elements), part_of.begin() + begin_of(part + 1, parts, elements),
              part);
  }
  return part_of;
}

}  // namespace

DensityMap density_map(const CsrMatrix& matrix, std::int64_t most) {
  DensityMap map;
  map.rows = std::min(matrix.rows, most);
  map.cols = std::min(matrix.cols, most);
  if (map.rows == 0 || map.cols == 0) return {};
  map.density.resize(map.rows * map.cols);
  const std::vector<std::int64_t> row_part = parts_of(matrix.rows, map.rows);
  const std::vector<std::int64_t> col_part = parts_of(matrix.cols, map.cols);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    double* const cells = map.density.data() + row_part[row] * map.cols;
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i)
      cells[col_part[matrix.column_indices[i]]] += 1;
  }
  for (std::int64_t i = 0; i < map.rows; ++i) {
    const std::int64_t height = begin_of(i + 1, map.rows, matrix.rows) - begin_of(i, map.rows, matrix.rows);
    for (std::int64_t j = 0; j < map.cols; ++j) {
      const std::int64_t width = begin_of(j + 1, map.cols, matrix.cols) - begin_of(j, map.cols, matrix.cols);
      map.density[i * map.cols + j] /= static_cast<double>(height * width);
    }
  }
  return map;
}

}  // namespace sparsmith::tools
