#include "search/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>

#include "base/split.h"

namespace sparsmith {
namespace {

constexpr int kMostShards = 100000;
constexpr double kNearDensities = 1.05;    // as in search/choice/transfer.h
constexpr double kTransferWork = 0.15;     // of a weight that tries another one's result, of a full search
constexpr double kElementsOfSearch = 3e7;  // that take as long to pack and to time as a search takes besides

double work_of(const ShardWeight& weight) {
  return 1 + static_cast<double>(weight.rows) * static_cast<double>(weight.cols) / kElementsOfSearch;
}

double density_of(const ShardWeight& weight) {
  const double elements = static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
  return elements > 0 ? static_cast<double>(weight.nnz) / elements : 0;
}

// Weights that one run tunes one after the other.
struct Unit {
  std::vector<std::size_t> weights;
  double work = 0;
};

Unit unit_of(std::span<const ShardWeight> weights, std::span<const std::size_t> indices) {
  Unit unit{{indices.begin(), indices.end()}, 0};
  for (const std::size_t index : indices)
    unit.work += work_of(weights[index]) * (index == indices.front() ? 1 : kTransferWork);
  return unit;
}

// Weights near each other, in the order of shape and density.
std::vector<std::vector<std::size_t>> clusters_of(std::span<const ShardWeight> weights) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::tuple(weights[i].rows, weights[i].cols, weights[i].nnz, i); });
  std::vector<std::vector<std::size_t>> clusters;
  for (const std::size_t i : order) {
    const bool is_near = !clusters.empty() && [&] {
      const ShardWeight& first = weights[clusters.back().front()];
      return first.rows == weights[i].rows && first.cols == weights[i].cols &&
             density_of(weights[i]) <= kNearDensities * density_of(first);
    }();
    if (!is_near) clusters.emplace_back();
    clusters.back().push_back(i);
  }
  return clusters;
}

}  // namespace

Result<Shard> parse_shard(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, "/");
  const auto number = [](std::string_view part) {
    const bool digits =
        !part.empty() && part.size() < 9 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    return digits ? std::stoi(std::string(part)) : 0;
  };
  const Shard shard{number(parts[0]), parts.size() == 2 ? number(parts[1]) : 0};
  if (shard.number >= 1 && shard.number <= shard.count && shard.count <= kMostShards) return shard;
  return invalid_argument(
      fmt::format("\"{}\" is no shard: give its number, from 1, and the number of all, as 2/8", text));
}

std::vector<std::size_t> weights_of_shard(std::span<const ShardWeight> weights, Shard shard) {
  const std::vector<std::vector<std::size_t>> clusters = clusters_of(weights);
  double all = 0;
  for (const std::vector<std::size_t>& cluster : clusters) all += unit_of(weights, cluster).work;
  const double share = all / shard.count;
  std::vector<Unit> units;
  for (const std::vector<std::size_t>& cluster : clusters) {
    const double parts = std::clamp(std::round(unit_of(weights, cluster).work / std::max(share, 1e-9)), 1.0,
                                    static_cast<double>(cluster.size()));
    const auto count = static_cast<std::size_t>(parts);
    for (std::size_t part = 0; part < count; ++part) {
      const std::size_t begin = cluster.size() * part / count;
      const std::size_t end = cluster.size() * (part + 1) / count;
      units.push_back(unit_of(weights, std::span(cluster).subspan(begin, end - begin)));
    }
  }
  std::ranges::stable_sort(units, std::greater(), &Unit::work);
  std::vector<Unit> shards(shard.count);
  for (const Unit& unit : units) {
    Unit& least = *std::ranges::min_element(shards, {}, &Unit::work);
    least.weights.insert(least.weights.end(), unit.weights.begin(), unit.weights.end());
    least.work += unit.work;
  }
  std::vector<std::size_t> chosen = std::move(shards[shard.number - 1].weights);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace sparsmith
