#include "matrix/weight_structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/ceil_div.h"

namespace sparsmith {
namespace {

constexpr double kMostRest = 0.1;
constexpr double kLeastGroupFill = 0.5;     // emptier groups are legal by chance
constexpr double kMostOfRandom = 0.5;       // of the rest that zeros at random would leave
constexpr double kMostFullBlocks = 0.75;    // of all blocks
constexpr double kLeastOfRandomFill = 1.5;  // the fill of full blocks over the density

std::int64_t csr_bytes(const SparsityStatistics& s, double nonzeros) {
  if (nonzeros == 0) return 0;
  const double entry = static_cast<double>(size_of(s.data_type)) + (s.cols <= 65536 ? 2 : 4);
  return (s.rows + 1) * 4 + std::llround(nonzeros * entry);
}

WeightStructure blocks_of(const SparsityStatistics& s, std::size_t i) {
  const std::int64_t size = SparsityStatistics::kBlockSizes[i];
  const std::int64_t block_rows = ceil_div(s.rows, size);
  const double blocks = s.block_full[i] * static_cast<double>(block_rows * ceil_div(s.cols, size));
  const double places = blocks * static_cast<double>(size * size);
  const double rest = s.block_rest[i] * static_cast<double>(s.nnz);
  const auto value_bytes = static_cast<double>(size_of(s.data_type));
  return {.name = fmt::format("b{}", size),
          .fill = places > 0 ? (static_cast<double>(s.nnz) - rest) / places : 0,
          .rest = s.block_rest[i],
          .bytes = (block_rows + 1) * 4 + std::llround(blocks * 4 + places * value_bytes) + csr_bytes(s, rest)};
}

// Nonzeros beyond `kept` in a group, over all groups, whose `sizes` are counts or probabilities.
double excess(const auto& sizes, std::size_t kept) {
  double result = 0;
  for (std::size_t size = kept + 1; size < sizes.size(); ++size)
    result += static_cast<double>(size - kept) * static_cast<double>(sizes[size]);
  return result;
}

WeightStructure groups_of(const SparsityStatistics& s, std::size_t i, std::size_t kept) {
  const auto columns = static_cast<unsigned>(SparsityStatistics::kGroupSizes[i]);
  const double rest = excess(s.groups[i], kept);
  const auto places = static_cast<double>(s.rows * ceil_div(s.cols, std::int64_t{columns})) * static_cast<double>(kept);
  const double place_bytes = static_cast<double>(size_of(s.data_type)) + (std::bit_width(columns) - 1) / 8.0;
  return {.name = fmt::format("{}:{}", kept, columns),
          .fill = places > 0 ? (static_cast<double>(s.nnz) - rest) / places : 0,
          .rest = s.nnz > 0 ? rest / static_cast<double>(s.nnz) : 0,
          .bytes = std::llround(places * place_bytes) + csr_bytes(s, rest)};
}

// The share of nonzeros that zeros at random leave outside of `kept` of `columns`.
double random_rest(double density, std::size_t columns, std::size_t kept) {
  std::vector<double> sizes(columns + 1);
  for (std::size_t size = 0; size <= columns; ++size) {
    const double ways =
        std::exp(std::lgamma(columns + 1.0) - std::lgamma(size + 1.0) - std::lgamma(columns - size + 1.0));
    sizes[size] = ways * std::pow(density, static_cast<double>(size)) *
                  std::pow(1 - density, static_cast<double>(columns - size));
  }
  return excess(sizes, kept) / (density * static_cast<double>(columns));
}

// How many of the columns of a group density allows, at most half of them.
std::vector<std::size_t> kept_columns(const SparsityStatistics& s, std::size_t i) {
  const auto columns = static_cast<std::size_t>(SparsityStatistics::kGroupSizes[i]);
  const double mean = (1 - s.sparsity) * static_cast<double>(columns);
  const auto fitting = std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(mean - 0.05)), 1, columns / 2);
  return i == 0 && fitting != 2 ? std::vector<std::size_t>{fitting, 2} : std::vector<std::size_t>{fitting};
}

}  // namespace

std::string WeightStructure::text() const {
  const std::string structure = name.starts_with('b') ? fmt::format("blocks of {0} x {0}", name.substr(1)) : name;
  return rest == 0 ? structure : fmt::format("{} but for {:.2g} % of the nonzeros", structure, rest * 100);
}

std::vector<WeightStructure> structures_of(const SparsityStatistics& statistics) {
  std::vector<WeightStructure> result;
  for (std::size_t i = 0; i < SparsityStatistics::kBlockSizes.size(); ++i) result.push_back(blocks_of(statistics, i));
  for (std::size_t i = 0; i < SparsityStatistics::kGroupSizes.size(); ++i)
    for (const std::size_t kept : kept_columns(statistics, i)) result.push_back(groups_of(statistics, i, kept));
  return result;
}

std::optional<WeightStructure> structure_of(const SparsityStatistics& statistics) {
  const double density = 1 - statistics.sparsity;
  if (statistics.nnz == 0) return std::nullopt;
  std::optional<WeightStructure> best;
  const auto offer = [&](WeightStructure each) {
    if (each.rest <= kMostRest && (!best || each.bytes < best->bytes)) best = std::move(each);
  };
  for (std::size_t i = 0; i < SparsityStatistics::kBlockSizes.size(); ++i) {
    WeightStructure blocks = blocks_of(statistics, i);
    if (statistics.block_full[i] <= kMostFullBlocks && blocks.fill >= kLeastOfRandomFill * density)
      offer(std::move(blocks));
  }
  for (std::size_t i = 0; i < SparsityStatistics::kGroupSizes.size(); ++i) {
    if (SparsityStatistics::kGroupSizes[i] > statistics.cols) break;
    for (const std::size_t kept : kept_columns(statistics, i)) {
      WeightStructure groups = groups_of(statistics, i, kept);
      const auto columns = static_cast<std::size_t>(SparsityStatistics::kGroupSizes[i]);
      if (groups.fill >= kLeastGroupFill && groups.rest <= kMostOfRandom * random_rest(density, columns, kept))
        offer(std::move(groups));
    }
  }
  return best;
}

}  // namespace sparsmith
