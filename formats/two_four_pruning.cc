#include "formats/two_four_pruning.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "base/parallel_for.h"
#include "formats/two_four_tiles_layout.h"

namespace sparsmith {
namespace {

// Of the tile at `from`.
unsigned pattern_at(const float* from, std::int64_t cols) {
  float most = 0;
  for (std::int64_t i = 0; i < 16; ++i) {
    const float magnitude = std::fabs(from[i / 4 * cols + i % 4]);
    most = magnitude > most ? magnitude : most;
  }
  const auto scale = std::bit_cast<float>(two_four::scale_bits(std::bit_cast<std::uint32_t>(most)));
  two_four::Magnitudes magnitudes{};
  for (std::int64_t i = 0; i < 16; ++i) {
    const float sum = std::fmaf(std::fabs(from[i / 4 * cols + i % 4]), scale, two_four::kToInteger);
    magnitudes.of[i / 4][i % 4] = static_cast<int>(std::bit_cast<std::uint32_t>(sum) << two_four::kCodeBits);
  }
  return two_four::pattern_of(two_four::best_code(magnitudes));
}

}  // namespace

Status check_prunable(std::int64_t rows, std::int64_t cols) {
  if (rows >= 4 && cols >= 4 && rows % 4 == 0 && cols % 4 == 0) return {};
  return invalid_argument(fmt::format(
      "a weight of {} x {} is not pruned 2:4 along rows and columns: both must be multiples of 4", rows, cols));
}

Result<CsrMatrix> prune_two_four(std::span<const float> weight, std::int64_t rows, std::int64_t cols) {
  SPARSMITH_RETURN_IF_ERROR(check_prunable(rows, cols));
  if (std::ssize(weight) / cols != rows || std::ssize(weight) % cols != 0)
    return invalid_argument(fmt::format("a weight of {} x {} has not {} elements", rows, cols, weight.size()));
  CsrMatrix pruned;
  pruned.rows = rows;
  pruned.cols = cols;
  pruned.column_indices.resize(weight.size() / 2);
  pruned.values.resize(weight.size() / 2);
  for (std::int64_t row = 1; row <= rows; ++row) pruned.row_offsets.push_back(row * cols / 2);
  parallel_each(rows / 4, [&](std::int64_t tiles) {
    for (std::int64_t column = 0; column < cols; column += 4) {
      const float* const from = weight.data() + 4 * tiles * cols + column;
      unsigned pattern = pattern_at(from, cols);
      for (std::int64_t row = 0; row < 4; ++row) {
        auto at = static_cast<std::size_t>((4 * tiles + row) * cols + column) / 2;
        for (std::int64_t i = 0; i < 4; ++i, pattern >>= 1U) {
          if ((pattern & 1U) == 0) continue;
          pruned.column_indices[at] = static_cast<std::uint32_t>(column + i);
          const float value = from[row * cols + i];
          pruned.values[at++] = value == 0 ? 0 : value;
        }
      }
    }
  });
  return pruned;
}

}  // namespace sparsmith
