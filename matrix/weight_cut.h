// Cuts weights into parts, one for each rank of tensor parallelism: `tune --split` (weight_splits.h finds the weights).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

// How a weight is cut. Weights of different sizes may share a cut, as attention's query, key, value and output do: it
// counts units, and each weight has as many features in a unit as its size gives.
struct WeightCut {
  enum class Dimension : std::uint8_t { kRows, kColumns };  // output features; input features

  Dimension dimension = Dimension::kRows;
  std::vector<std::int64_t> boundaries{};  // [ranks + 1] in units: ascending from 0 to the number of units
  // Rows: readers of Y want all parts. Columns: X comes as a whole. Else X or Y is cut as the weight is.
  bool whole = false;

  int ranks() const { return static_cast<int>(boundaries.size()) - 1; }
  std::int64_t units() const { return boundaries.back(); }
  std::int64_t units_of(int rank) const { return boundaries[rank + 1] - boundaries[rank]; }

  // Ok when the boundaries are as said, for at least two ranks. Error: kInvalidInput.
  Status validate() const;

  bool operator==(const WeightCut&) const = default;
};

inline constexpr std::string_view kCutDimensions[] = {"rows", "columns"};  // the names of WeightCut::Dimension

// The boundaries of `ranks` contiguous parts, each of one unit or more. The largest sum of a part is as small as it can
// be. REQUIRES: no load is negative; ranks <= units.
std::vector<std::int64_t> exact_boundaries(std::span<const std::int64_t> loads, int ranks);

// The same, or parts of equally many units if the units divide and the largest sum is at most 1 % above the smallest
// possible: parts of one shape share kernels and searches.
std::vector<std::int64_t> balanced_boundaries(std::span<const std::int64_t> loads, int ranks);

// Adds the nonzeros of each unit to `loads`, [units]. REQUIRES: the units divide the dimension.
void add_loads(const CsrMatrix& matrix, WeightCut::Dimension dimension, std::span<std::int64_t> loads);

// A rank's part of a weight. Error: kInvalidInput where the units do not divide the dimension.
Result<CsrMatrix> part_of(const CsrMatrix& matrix, const WeightCut& cut, int rank);

}  // namespace sparsmith
