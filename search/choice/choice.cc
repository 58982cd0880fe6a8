#include "search/choice/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace sparsmith {
namespace {

// Microseconds of an N that nothing serves: more than anything takes, and still finite, so that serving one N more
// counts.
constexpr double kNever = 1e30;

// By which share times differ that are called different, at least.
constexpr double kNoise = 0.01;

using PackingBytes = std::map<std::string, std::int64_t>;

double cost_at(const BucketTimes& bucket, const std::vector<std::string>& packings) {
  double best = kNever;
  for (const std::string& packing : packings) {
    const auto found = bucket.best_us.find(packing);
    if (found != bucket.best_us.end()) best = std::min(best, found->second);
  }
  return best == kNever ? kNever : best * bucket.calls;
}

double cost_of(const std::vector<BucketTimes>& buckets, const std::vector<std::string>& packings) {
  double sum = 0;
  for (const BucketTimes& bucket : buckets) sum += cost_at(bucket, packings);
  return sum;
}

std::int64_t bytes_of(const PackingBytes& packing_bytes, const std::vector<std::string>& packings) {
  std::int64_t sum = 0;
  for (const std::string& packing : packings) {
    const auto found = packing_bytes.find(packing);
    if (found != packing_bytes.end()) sum += found->second;
  }
  return sum;
}

// A further copy of the weight is worth its memory where it takes 0.7 % off the sum, or 2 % off some N. (Two or three
// that are not worth it would take no more than 2 % off the sum: as far apart may two searches be that differ in
// nothing but noise.)
bool worth_a_copy(const std::vector<BucketTimes>& buckets, const std::vector<std::string>& without,
                  const std::vector<std::string>& with) {
  if (cost_of(buckets, with) <= 0.993 * cost_of(buckets, without)) return true;
  return std::ranges::any_of(
      buckets, [&](const BucketTimes& bucket) { return cost_at(bucket, with) <= 0.98 * cost_at(bucket, without); });
}

// What is to be chosen from.
struct Space {
  std::vector<BucketTimes> buckets;  // without what is too slow beside dense
  std::set<std::string> names;
  const PackingBytes& packing_bytes;
  std::int64_t most_bytes;

  bool fits(const std::vector<std::string>& kept) const { return bytes_of(packing_bytes, kept) <= most_bytes; }
  bool serves(const std::vector<std::string>& kept) const { return cost_of(buckets, kept) < kNever / 2; }
};

Space space_of(const std::vector<BucketTimes>& buckets, const PackingBytes& packing_bytes, std::int64_t most_bytes,
               double most_slowdown) {
  Space space{buckets, {}, packing_bytes, most_bytes};
  for (BucketTimes& bucket : space.buckets) {
    std::erase_if(bucket.best_us, [&](const auto& each) {
      return bucket.dense_us > 0 && each.second > (1 + most_slowdown) * bucket.dense_us;
    });
    for (const auto& [name, us] : bucket.best_us) space.names.insert(name);
  }
  return space;
}

// Exchanges packings one by one for those that lower the cost: what served every N at first may be in the way later.
void exchange(const Space& space, std::vector<std::string>& kept) {
  for (std::string& slot : kept) {
    for (const std::string& name : space.names) {
      if (std::find(kept.begin(), kept.end(), name) != kept.end()) continue;
      const double cost = cost_of(space.buckets, kept);
      std::string old = std::exchange(slot, name);
      if (!space.fits(kept) || cost_of(space.buckets, kept) >= cost) slot = std::move(old);
    }
  }
}

// Drops those that the others make superfluous.
void drop_superfluous(const Space& space, std::vector<std::string>& kept) {
  for (std::size_t i = 0; i + 1 < kept.size();) {
    std::vector<std::string> without = kept;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (worth_a_copy(space.buckets, without, kept)) {
      ++i;
    } else {
      kept = std::move(without);
    }
  }
}

// Takes one packing after the other, behind those in `kept`, each time the one that lowers the cost most.
std::vector<std::string> greedy(const Space& space, std::vector<std::string> kept) {
  double cost = cost_of(space.buckets, kept);
  while (std::ssize(kept) < kMostPackings) {
    std::string best;
    double best_cost = cost;
    for (const std::string& name : space.names) {
      std::vector<std::string> with = kept;
      with.push_back(name);
      if (!space.fits(with)) continue;
      const double now = cost_of(space.buckets, with);
      const bool smaller = now == best_cost && !best.empty() &&
                           bytes_of(space.packing_bytes, {name}) < bytes_of(space.packing_bytes, {best});
      if (now < best_cost || smaller) {
        best = name;
        best_cost = now;
      }
    }
    if (best.empty()) break;
    std::vector<std::string> with = kept;
    with.push_back(best);
    if (!kept.empty() && !worth_a_copy(space.buckets, kept, with)) break;
    drop_superfluous(space, with);
    exchange(space, with);
    const double now = cost_of(space.buckets, with);
    if (now >= cost) break;  // or packings that were dropped would be taken again, for ever
    kept = std::move(with);
    cost = now;
  }
  return kept;
}

// What such walks come to from nothing and from each packing, of what serves every N. (A large one that serves every N
// a little may come first, and leave no room for two small ones.)
std::vector<std::vector<std::string>> ways(const Space& space) {
  std::vector<std::vector<std::string>> all = {greedy(space, {})};
  for (const std::string& name : space.names)
    if (space.fits({name})) all.push_back(greedy(space, {name}));
  std::erase_if(all, [&](const auto& kept) { return kept.empty() || !space.serves(kept); });
  return all;
}

double spread(const Timing& timing) {
  return timing.median_us > 0 ? std::max(0.0, (timing.q3_us - timing.q1_us) / 2 / timing.median_us) : 0;
}

struct Ranked {
  const Trial* trial;
  Timing timing;
};

std::string_view name_of(const Trial& dense) { return gathers(dense.candidate) ? "dense with its gather" : "dense"; }

std::string kept_dense(double sparse_us, const Ranked& dense) {
  const double dense_us = dense.timing.median_us;
  if (sparse_us == kNever)
    return fmt::format("dense is kept: no sparse candidate passed; {} takes {:.2f} us", name_of(*dense.trial),
                       dense_us);
  return fmt::format("dense is kept: the best sparse candidate takes {:.2f} us, {} {:.2f} us", sparse_us,
                     name_of(*dense.trial), dense_us);
}

// What is known of a trial's time; nothing of one that was rejected.
std::optional<Timing> time_of(const Trial& trial, bool predicted) {
  if (trial.state == Trial::State::kTimed) return trial.timing;
  if (!predicted || trial.state != Trial::State::kWaiting) return std::nullopt;
  Timing timing;
  timing.median_us = timing.q1_us = timing.q3_us = trial.candidate.predicted_us;
  return timing;
}

// Where a candidate is faster than dense, but its packing is not kept.
std::string kept_for_memory(const Ranked& fastest, const Ranked& dense) {
  const double share = static_cast<double>(fastest.trial->packed_bytes) /
                       static_cast<double>(std::max<std::int64_t>(1, dense.trial->packed_bytes));
  return fmt::format(
      "dense is kept: a sparse candidate takes {:.2f} us, dense {:.2f} us, but within the memory bound no packings "
      "serve "
      "every N; its packing takes {:.2f}x the bytes of dense, together with dense {:.2f}x (--memory)",
      fastest.timing.median_us, dense.timing.median_us, share, 1 + share);
}

bool clearly_faster(const Timing& a, const Timing& b) { return a.median_us < b.median_us * (1 - noise_of(a, b)); }

// Of times of the final, which are comparable, the least; another one only where there is none of the final.
bool is_better(const Ranked& a, const std::optional<Ranked>& b) {
  if (!b) return true;
  if (a.trial->in_final != b->trial->in_final) return a.trial->in_final;
  return a.timing.median_us < b->timing.median_us;
}

// The best of those that `counts` names; an incumbent among them stays unless it is beaten by more than the noise.
template <class Counts>
std::optional<Ranked> best_of(const std::vector<Trial>& trials, bool predicted, const Counts& counts) {
  std::optional<Ranked> best;
  std::optional<Ranked> incumbent;
  for (const Trial& trial : trials) {
    const std::optional<Timing> timing = counts(trial) ? time_of(trial, predicted) : std::nullopt;
    if (!timing) continue;
    const Ranked ranked{&trial, *timing};
    if (is_better(ranked, best)) best = ranked;
    if (trial.incumbent && is_better(ranked, incumbent)) incumbent = ranked;
  }
  return incumbent && !clearly_faster(best->timing, incumbent->timing) ? incumbent : best;
}

// Why no baseline was measured.
std::string without_baseline(const std::vector<Trial>& trials) {
  const auto one = std::ranges::find(trials, true, &Trial::baseline);
  if (one == trials.end()) return "the fastest candidate; dense was not measured";
  return fmt::format("the fastest candidate; dense was not measured{}{}", one->reason.empty() ? "" : ": ", one->reason);
}

// choose_packings() with one limit of the time.
std::vector<std::string> packings_within(const std::vector<BucketTimes>& buckets, const PackingBytes& packing_bytes,
                                         std::int64_t most_bytes, double most_slowdown) {
  const Space space = space_of(buckets, packing_bytes, most_bytes, most_slowdown);
  const std::vector<std::vector<std::string>> all = ways(space);
  if (all.empty()) return {};
  const auto cost = [&](const std::vector<std::string>& kept) { return cost_of(space.buckets, kept); };
  const auto bytes = [&](const std::vector<std::string>& kept) { return bytes_of(packing_bytes, kept); };
  const std::vector<std::string>& fastest = *std::ranges::min_element(all, {}, cost);
  const std::vector<std::string>* chosen = &fastest;
  for (const std::vector<std::string>& each : all) {
    if (worth_a_copy(space.buckets, each, fastest)) continue;
    if (std::pair(bytes(each), cost(each)) < std::pair(bytes(*chosen), cost(*chosen))) chosen = &each;
  }
  return *chosen;
}

}  // namespace

std::vector<std::string> choose_packings(const std::vector<BucketTimes>& buckets, const PackingBytes& packing_bytes,
                                         std::int64_t most_bytes) {
  std::vector<std::string> kept = packings_within(buckets, packing_bytes, most_bytes, kMostSlowdown);
  std::set<std::string> dense;
  for (const BucketTimes& bucket : buckets) dense.insert(bucket.dense_packing);
  if (kept.empty() && bytes_of(packing_bytes, {dense.begin(), dense.end()}) > most_bytes)
    kept = packings_within(buckets, packing_bytes, most_bytes, std::numeric_limits<double>::infinity());
  return kept;
}

std::int64_t least_bytes(const std::vector<BucketTimes>& buckets, const PackingBytes& packing_bytes) {
  // Less and less room, until nothing fits.
  std::int64_t least = 0;
  for (std::int64_t room = std::numeric_limits<std::int64_t>::max();;) {
    const std::vector<std::string> kept = choose_packings(buckets, packing_bytes, room);
    if (kept.empty()) return least;
    least = bytes_of(packing_bytes, kept);
    room = least - 1;
  }
}

double time_with(const std::vector<BucketTimes>& buckets, const std::vector<std::string>& packings) {
  return cost_of(buckets, packings);
}

double noise_of(const Timing& a, const Timing& b) { return std::max(kNoise, std::hypot(spread(a), spread(b))); }

const Trial* baseline_of(const std::vector<Trial>& trials, bool predicted) {
  const std::optional<Ranked> best = best_of(trials, predicted, std::mem_fn(&Trial::baseline));
  return best ? best->trial : nullptr;
}

std::optional<Winner> choose_trial(const std::vector<Trial>& trials, const std::vector<std::string>& packings,
                                   bool beside_baseline, bool predicted) {
  const auto is_kept = [&](const Trial& trial) {
    return std::ranges::find(packings, trial.identity.packing) != packings.end();
  };
  // Where nothing is weighed against the baseline, it is there as an earlier choice alone.
  const auto competes = [&](const Trial& trial) { return !trial.baseline || (!beside_baseline && trial.incumbent); };
  std::optional<Ranked> dense;
  if (beside_baseline) dense = best_of(trials, predicted, std::mem_fn(&Trial::baseline));
  const std::optional<Ranked> best =
      best_of(trials, predicted, [&](const Trial& each) { return competes(each) && is_kept(each); });
  if (!best && !(dense && is_kept(*dense->trial))) return std::nullopt;
  if (!best) {
    std::optional<Ranked> fastest;  // of any packing
    for (const Trial& each : trials) {
      const std::optional<Timing> timing = competes(each) ? time_of(each, predicted) : std::nullopt;
      if (timing && (!fastest || timing->median_us < fastest->timing.median_us)) fastest = Ranked{&each, *timing};
    }
    if (fastest && clearly_faster(fastest->timing, dense->timing))
      return Winner{dense->trial, kept_for_memory(*fastest, *dense)};
    return Winner{dense->trial, kept_dense(fastest ? fastest->timing.median_us : kNever, *dense)};
  }
  if (!dense) return Winner{best->trial, without_baseline(trials)};
  if (clearly_faster(best->timing, dense->timing)) {
    return Winner{best->trial,
                  fmt::format("{:.2f}x as fast as {} ({:.2f} us)", dense->timing.median_us / best->timing.median_us,
                              name_of(*dense->trial), dense->timing.median_us)};
  }
  if (is_kept(*dense->trial)) return Winner{dense->trial, kept_dense(best->timing.median_us, *dense)};
  const double dense_us = dense->timing.median_us;
  if (best->timing.median_us > (1 + kMostSlowdown) * dense_us) {
    return Winner{best->trial, fmt::format("{:.2f}x the time of {} ({:.2f} us), for which the memory bound has no room",
                                           best->timing.median_us / dense_us, name_of(*dense->trial), dense_us)};
  }
  return Winner{best->trial, fmt::format("within {:.0f} % of {} ({:.2f} us), which the weight does not keep",
                                         100 * kMostSlowdown, name_of(*dense->trial), dense_us)};
}

}  // namespace sparsmith
