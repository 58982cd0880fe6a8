#include "matrix/triplets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace sparsmith {
namespace {

// Positions of the triplets, sorted by row and, within a row, in the order they were given.
std::vector<std::size_t> order_by_row(const Triplets& triplets) {
  std::vector<std::size_t> order(triplets.values.size());
  if (static_cast<std::size_t>(triplets.rows) > 4 * order.size() + 1024) {  // a place a row costs more
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return triplets.row_indices[i]; });
    return order;
  }
  std::vector<std::size_t> next(triplets.rows + 1);
  for (const std::uint32_t row : triplets.row_indices) ++next[row + 1];
  for (std::int64_t row = 0; row < triplets.rows; ++row) next[row + 1] += next[row];
  for (std::size_t i = 0; i < order.size(); ++i) order[next[triplets.row_indices[i]]++] = i;
  return order;
}

}  // namespace

Result<CsrMatrix> csr_from_triplets(const Triplets& triplets, DataType type) {
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(triplets.rows, triplets.cols));
  CsrMatrix matrix{{triplets.rows, triplets.cols}, type};
  matrix.row_offsets.reserve(triplets.rows + 1);
  matrix.column_indices.reserve(triplets.values.size());
  matrix.values.reserve(triplets.values.size());
  const std::vector<std::size_t> order = order_by_row(triplets);
  std::vector<std::pair<std::uint32_t, double>> elements;
  std::size_t next = 0;
  for (std::int64_t row = 0; row < triplets.rows; ++row) {
    elements.clear();
    for (; next < order.size() && triplets.row_indices[order[next]] == row; ++next) {
      elements.emplace_back(triplets.column_indices[order[next]], triplets.values[order[next]]);
    }
    std::ranges::stable_sort(elements, {}, [](const auto& element) { return element.first; });
    for (std::size_t i = 0; i < elements.size();) {
      const std::uint32_t column = elements[i].first;
      double sum = 0;
      for (; i < elements.size() && elements[i].first == column; ++i) sum += elements[i].second;
      const float value = rounded(static_cast<float>(sum), type);
      if (!std::isfinite(value)) {
        return invalid_input(
            fmt::format("the element in row {}, column {} is {}{}; a weight must be finite", row, column, sum,
                        std::isfinite(sum) ? fmt::format(", beyond the range of {}", short_name(type)) : ""));
      }
      if (value == 0.0F) continue;
      matrix.column_indices.push_back(column);
      matrix.values.push_back(value);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace sparsmith
