#include "matrix/weight_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace sparsmith {
namespace {

std::int64_t extent_of(const CsrMatrix& matrix, WeightCut::Dimension dimension) {
  return dimension == WeightCut::Dimension::kRows ? matrix.rows : matrix.cols;
}

// Parts of at most `limit`, each as long as it can be and yet leaves a unit for each later part; empty where they do
// not hold all.
std::vector<std::int64_t> filled(std::span<const std::int64_t> loads, int ranks, std::int64_t limit) {
  const auto units = std::ssize(loads);
  std::vector<std::int64_t> boundaries{0};
  for (std::int64_t unit = 0; std::ssize(boundaries) <= ranks; boundaries.push_back(unit)) {
    const std::int64_t last = units - (ranks - std::ssize(boundaries));
    std::int64_t sum = 0;
    while (unit < last && sum + loads[unit] <= limit) sum += loads[unit++];
    if (unit == boundaries.back()) return {};
  }
  return boundaries.back() == units ? boundaries : std::vector<std::int64_t>();
}

std::int64_t largest_part(std::span<const std::int64_t> loads, std::span<const std::int64_t> boundaries) {
  std::int64_t largest = 0;
  for (std::size_t rank = 0; rank + 1 < boundaries.size(); ++rank)
    largest = std::max(largest, std::accumulate(loads.begin() + boundaries[rank], loads.begin() + boundaries[rank + 1],
                                                std::int64_t{0}));
  return largest;
}

CsrMatrix rows_of(const CsrMatrix& matrix, std::int64_t first, std::int64_t count) {
  CsrMatrix part{{count, matrix.cols}, matrix.data_type};
  const std::int64_t begin = matrix.row_offsets[first];
  const std::int64_t end = matrix.row_offsets[first + count];
  for (std::int64_t row = 1; row <= count; ++row) part.row_offsets.push_back(matrix.row_offsets[first + row] - begin);
  part.column_indices.assign(matrix.column_indices.begin() + begin, matrix.column_indices.begin() + end);
  part.values.assign(matrix.values.begin() + begin, matrix.values.begin() + end);
  return part;
}

CsrMatrix columns_of(const CsrMatrix& matrix, std::int64_t first, std::int64_t count) {
  CsrMatrix part{{matrix.rows, count}, matrix.data_type};
  const auto columns = matrix.column_indices.begin();
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto end = columns + matrix.row_offsets[row + 1];
    auto own = std::lower_bound(columns + matrix.row_offsets[row], end, first);
    for (; own != end && *own < first + count; ++own) {
      part.column_indices.push_back(static_cast<std::uint32_t>(*own - first));
      part.values.push_back(matrix.values[own - columns]);
    }
    part.row_offsets.push_back(part.nnz());
  }
  return part;
}

}  // namespace

Status WeightCut::validate() const {
  if (boundaries.size() < 3) return invalid_input("a cut has boundaries of at least two parts");
  if (boundaries.front() != 0 || !std::ranges::is_sorted(boundaries, std::less_equal<>()) ||
      units() > kMaxMatrixDimension)
    return invalid_input("the boundaries of a cut do not ascend from 0 to the number of units");
  return {};
}

std::vector<std::int64_t> exact_boundaries(std::span<const std::int64_t> loads, int ranks) {
  std::int64_t least = std::ranges::max(loads);
  std::int64_t most = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  while (least < most) {
    const std::int64_t limit = least + (most - least) / 2;
    if (filled(loads, ranks, limit).empty())
      least = limit + 1;
    else
      most = limit;
  }
  return filled(loads, ranks, least);
}

std::vector<std::int64_t> balanced_boundaries(std::span<const std::int64_t> loads, int ranks) {
  constexpr double kTolerance = 1.01;
  std::vector<std::int64_t> exact = exact_boundaries(loads, ranks);
  if (std::ssize(loads) % ranks != 0) return exact;
  std::vector<std::int64_t> equal;
  for (int rank = 0; rank <= ranks; ++rank) equal.push_back(std::ssize(loads) / ranks * rank);
  const auto smallest = static_cast<double>(largest_part(loads, exact));
  return static_cast<double>(largest_part(loads, equal)) <= kTolerance * smallest ? equal : exact;
}

void add_loads(const CsrMatrix& matrix, WeightCut::Dimension dimension, std::span<std::int64_t> loads) {
  const std::int64_t unit = extent_of(matrix, dimension) / std::ssize(loads);
  if (dimension == WeightCut::Dimension::kColumns) {
    for (const std::uint32_t column : matrix.column_indices) ++loads[column / unit];
    return;
  }
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) * unit;
    loads[i] += matrix.row_offsets[row + unit] - matrix.row_offsets[row];
  }
}

Result<CsrMatrix> part_of(const CsrMatrix& matrix, const WeightCut& cut, int rank) {
  const std::int64_t extent = extent_of(matrix, cut.dimension);
  if (extent % cut.units() != 0)
    return invalid_input(fmt::format("{} {} do not divide into {} units", extent,
                                     kCutDimensions[static_cast<std::size_t>(cut.dimension)], cut.units()));
  const std::int64_t unit = extent / cut.units();
  const auto take = cut.dimension == WeightCut::Dimension::kRows ? rows_of : columns_of;
  return take(matrix, cut.boundaries[rank] * unit, cut.units_of(rank) * unit);
}

}  // namespace sparsmith
