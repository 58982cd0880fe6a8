#include "search/byte_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/parallel_for.h"
#include "formats/packed_format.h"
#include "formats/places.h"
#include "search/choice/training.h"

namespace sparsmith {
namespace {

double microseconds(const std::vector<BucketChoice>& buckets) {
  double sum = 0;
  for (const BucketChoice& bucket : buckets) sum += bucket.calls * bucket.us();
  return sum;
}

constexpr double kShares[] = {0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.25, 1.5, kMostMemory};

// The choices with these packings; nothing where an N's is not verified.
std::vector<BucketChoice> choices_with(const std::vector<Bucket>& buckets, const std::vector<std::string>& kept,
                                       bool predicted) {
  std::vector<BucketChoice> choices;
  for (const Bucket& bucket : buckets) {
    const auto winner = choose_trial(bucket.trials, kept, /*beside_baseline=*/true, predicted);
    if (!winner || winner->trial->state == Trial::State::kWaiting) return {};
    BucketChoice choice = bucket_choice(bucket, *winner, predicted, "");
    choice.trials.clear();
    choice.vendors.clear();
    choices.push_back(std::move(choice));
  }
  return choices;
}

Status pack_again(const WeightInput& input, const TuneOptions& options, WeightResult& weight) {
  std::vector<GroupMember> members;
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, read_weight(input, options, members));
  weight.packings.clear();
  std::set<std::string> packed;
  for (const BucketChoice& choice : weight.buckets) {
    if (!packed.insert(choice.candidate.packing).second) continue;
    SPARSMITH_ASSIGN_OR_RETURN(PackedWeight again, pack(choice.candidate.packing, matrix, weight.type));
    weight.packings.push_back(std::move(again));
  }
  return {};
}

// What the fastest choices say besides is true of the others too: what was tried, and what the cache had.
void exchange(WeightResult& weight, Alternative& alternative) {
  for (std::size_t i = 0; i < weight.buckets.size(); ++i) {
    BucketChoice& old = weight.buckets[i];
    BucketChoice& choice = alternative.buckets[i];
    choice.reason =
        fmt::format("made smaller so that the model fits its memory bound: {:.2f} us, and {:.2f} us without the bound",
                    choice.us(), old.us());
    choice.incumbent = std::move(old.incumbent);
    choice.trials = std::move(old.trials);
    choice.vendors = std::move(old.vendors);
  }
  weight.buckets = std::move(alternative.buckets);
}

}  // namespace

std::vector<std::vector<std::string>> ways_to_keep(const std::vector<BucketTimes>& times,
                                                   const std::map<std::string, std::int64_t>& bytes,
                                                   std::int64_t dense_bytes) {
  std::vector<std::vector<std::string>> ways;
  for (const double share : kShares) {
    std::vector<std::string> way =
        choose_packings(times, bytes, static_cast<std::int64_t>(share * static_cast<double>(dense_bytes)));
    std::ranges::sort(way);
    if (!way.empty() && std::ranges::find(ways, way) == ways.end()) ways.push_back(std::move(way));
  }
  return ways;
}

std::vector<Alternative> alternatives_of(const TuneOptions& options, const WeightResult& weight,
                                         const std::vector<Bucket>& buckets, const std::vector<std::string>& kept,
                                         const std::map<std::string, std::int64_t>& bytes, bool predicted) {
  std::vector<BucketTimes> times;
  for (const Bucket& bucket : buckets) times.push_back(times_of(bucket, predicted));
  std::vector<std::vector<std::string>> ways = {kept};
  std::ranges::sort(ways.front());
  for (std::vector<std::string>& way : ways_to_keep(times, bytes, weight.dense_bytes()))
    if (way != ways.front()) ways.push_back(std::move(way));
  std::vector<ByteOption> costs;
  for (const std::vector<std::string>& way : ways) {
    ByteOption& cost = costs.emplace_back(ByteOption{0, time_with(times, way)});
    for (const std::string& name : way) cost.bytes += bytes.at(name);
  }
  std::vector<Alternative> all = {{costs[0], {}}};  // the present choices stand in the weight
  for (const std::size_t i : best_tradeoffs(costs)) {
    if (i == 0) continue;
    all.push_back({costs[i], options.model_bytes > 0 && costs[i].bytes < costs[0].bytes
                                 ? choices_with(buckets, ways[i], predicted)
                                 : std::vector<BucketChoice>()});
  }
  return all;
}

namespace {

// The alternatives that may take the place of the present choices of each weight.
std::vector<std::vector<ByteOption>> smaller_ways(const TuneReport& report) {
  std::vector<std::vector<ByteOption>> costs;
  for (const WeightResult& weight : report.weights) {
    std::vector<ByteOption>& each = costs.emplace_back();
    for (const Alternative& alternative : weight.alternatives) {
      if (each.empty() || !alternative.buckets.empty()) each.push_back(alternative.cost);
    }
    if (each.empty()) each.push_back({weight.gpu_bytes(), microseconds(weight.buckets)});
  }
  return costs;
}

void say_whether_training_fits(TuneReport& report) {
  for (const WeightResult& weight : report.weights) {
    std::int64_t bytes = 0;
    for (const PackedWeight& packed : weight.packings) bytes += bytes_with_places(packed);
    const std::int64_t room = training_room(weight);
    if (bytes <= room) continue;
    report.memory.unmet = fmt::format(
        "the memory of masked dense training has no room for {}: its smallest packings take {} bytes with their "
        "places, "
        "of {} that are left; leave it out (--exclude)",
        weight.name, bytes, room);
    return;
  }
}

void say_whether_weights_fit(const TuneOptions& options, TuneReport& report) {
  double least = 0;
  const WeightResult* largest = nullptr;
  for (const WeightResult& weight : report.weights) {
    const auto dense = static_cast<double>(std::max<std::int64_t>(1, weight.dense_bytes()));
    const bool fits = static_cast<double>(weight.gpu_bytes()) <= options.memory * dense;
    const double share = static_cast<double>(weight.gpu_bytes()) / dense;
    if (fits || share <= least) continue;
    least = share;
    largest = &weight;
  }
  if (largest == nullptr) return;
  report.memory.unmet = fmt::format("--memory {:g}x cannot be met: the smallest choices of {} take {:.2f}x",
                                    options.memory, largest->name, std::ceil(100 * least) / 100);
}

// What each weight takes with so many times its dense bytes.
MemoryUse::Faster with_memory(const TuneReport& report, double memory) {
  MemoryUse::Faster sum{memory, 0, 0};
  for (const WeightResult& weight : report.weights) {
    ByteOption best{weight.gpu_bytes(), microseconds(weight.buckets)};
    for (const Alternative& each : weight.alternatives) {
      const bool fits = static_cast<double>(each.cost.bytes) <= memory * static_cast<double>(weight.dense_bytes());
      if (fits && each.cost.us < best.us) best = each.cost;
    }
    sum.bytes += best.bytes;
    sum.us += best.us;
  }
  return sum;
}

void add_up(const TuneOptions& options, TuneReport& report) {
  MemoryUse& use = report.memory;
  for (const WeightResult& weight : report.weights) {
    use.dense_bytes += weight.dense_bytes();
    use.bytes += weight.gpu_bytes();
    use.us += microseconds(weight.buckets);
  }
  for (const double memory : kShares) {
    if (options.train) return;  // its bound is no share of the dense bytes
    if (options.model_bytes == 0 && memory <= options.memory) continue;
    const MemoryUse::Faster faster = with_memory(report, memory);
    if (faster.us >= 0.99 * use.us) continue;
    use.faster = faster;
    return;
  }
}

Status fit_model(std::span<const WeightInput> inputs, const TuneOptions& options, TuneReport& report) {
  const std::vector<std::vector<ByteOption>> costs = smaller_ways(report);
  const std::vector<std::size_t> chosen = fit_bytes(costs, options.model_bytes);
  std::int64_t bytes = 0;
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < report.weights.size(); ++i) {
    bytes += costs[i][chosen[i]].bytes;
    if (chosen[i] != 0) changed.push_back(i);
  }
  if (bytes > options.model_bytes) {
    report.memory.unmet =
        fmt::format("--memory {} cannot be met: the smallest choices take {} bytes", options.model_bytes, bytes);
  }
  std::vector<Status> packed(changed.size());
  parallel_for(static_cast<std::int64_t>(changed.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      WeightResult& weight = report.weights[changed[i]];
      std::vector<Alternative*> smaller;
      for (Alternative& each : weight.alternatives)
        if (!each.buckets.empty()) smaller.push_back(&each);
      exchange(weight, *smaller[chosen[changed[i]] - 1]);
      const auto input = std::ranges::find(inputs, weight.name, &WeightInput::name);
      packed[i] = pack_again(*input, options, weight);
    }
  });
  for (const Status& status : packed) SPARSMITH_RETURN_IF_ERROR(status);
  return {};
}

}  // namespace

Status bound_memory(std::span<const WeightInput> inputs, const TuneOptions& options, TuneReport& report) {
  if (options.model_bytes > 0) {
    SPARSMITH_RETURN_IF_ERROR(fit_model(inputs, options, report));
  } else if (options.train) {
    say_whether_training_fits(report);
  } else {
    say_whether_weights_fit(options, report);
  }
  add_up(options, report);
  for (WeightResult& weight : report.weights) weight.alternatives.clear();
  return {};
}

}  // namespace sparsmith
