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

// `transfers`: all of them have another weight's result; else the first is searched.
TuningUnit unit_of(std::span<const ShardWeight> weights, std::span<const std::size_t> indices, bool transfers = false) {
  TuningUnit unit{{indices.begin(), indices.end()}};
  for (const std::size_t index : indices)
    unit.work += work_of(weights[index]) * (index == indices.front() && !transfers ? 1 : kTransferWork);
  return unit;
}

// The bounds of parts of about this work each; at least one part, at most one an index.
std::vector<std::span<const std::size_t>> parts_of(std::span<const std::size_t> indices, double work, double share) {
  const auto count = static_cast<std::size_t>(
      std::clamp(std::round(work / std::max(share, 1e-9)), 1.0, static_cast<double>(indices.size())));
  std::vector<std::span<const std::size_t>> parts;
  for (std::size_t part = 0; part < count; ++part) {
    const std::size_t begin = indices.size() * part / count;
    parts.push_back(indices.subspan(begin, indices.size() * (part + 1) / count - begin));
  }
  return parts;
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
  std::vector<TuningUnit> units;
  for (const std::vector<std::size_t>& cluster : clusters) {
    for (const std::span<const std::size_t> part : parts_of(cluster, unit_of(weights, cluster).work, share))
      units.push_back(unit_of(weights, part));
  }
  std::ranges::stable_sort(units, std::greater(), &TuningUnit::work);
  std::vector<TuningUnit> shards(shard.count);
  for (const TuningUnit& unit : units) {
    TuningUnit& least = *std::ranges::min_element(shards, {}, &TuningUnit::work);
    least.weights.insert(least.weights.end(), unit.weights.begin(), unit.weights.end());
    least.work += unit.work;
  }
  std::vector<std::size_t> chosen = std::move(shards[shard.number - 1].weights);
  std::ranges::sort(chosen);
  return chosen;
}

std::vector<TuningUnit> tuning_units(std::span<const ShardWeight> weights, int count) {
  std::vector<std::vector<std::size_t>> clusters = clusters_of(weights);
  double all = 0;
  for (std::vector<std::size_t>& cluster : clusters) {
    std::ranges::sort(cluster);
    all += unit_of(weights, cluster).work;
  }
  const auto work_of_all = [&](const std::vector<std::size_t>& cluster) { return unit_of(weights, cluster).work; };
  std::ranges::stable_sort(clusters, std::greater(), work_of_all);
  const double share = all / count;
  std::vector<TuningUnit> units;
  std::vector<TuningUnit> others;
  for (const std::vector<std::size_t>& cluster : clusters) {
    const auto rest = std::span<const std::size_t>(cluster).subspan(1);
    if (work_of_all(cluster) <= share || rest.empty()) {
      const TuningUnit whole = unit_of(weights, cluster);
      if (others.empty() || others.back().after || others.back().work + whole.work > share) others.emplace_back();
      others.back().work += whole.work;
      others.back().weights.insert(others.back().weights.end(), cluster.begin(), cluster.end());
      continue;
    }
    units.push_back(unit_of(weights, std::span(cluster).first(1)));
    for (const auto part : parts_of(rest, unit_of(weights, rest, true).work, share)) {
      others.push_back(unit_of(weights, part, true));
      others.back().after = units.size() - 1;
    }
  }
  for (TuningUnit& unit : others) std::ranges::sort(unit.weights);
  std::ranges::stable_sort(others, std::greater(), &TuningUnit::work);
  units.insert(units.end(), others.begin(), others.end());
  return units;
}

}  // namespace sparsmith
