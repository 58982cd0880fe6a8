#include "search/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace sparsmith {
namespace {

// Microseconds of an N that nothing serves: more than anything takes, and still finite, so that serving one N more
// counts.
constexpr double kNever = 1e30;

// By which share times differ that are called different, at least.
constexpr double kNoise = 0.01;

using PackingBytes = std::map<std::string, std::int64_t>;

double fastest_of(const BucketTimes& bucket, const std::vector<std::string>& packings) {
  double best = kNever;
  for (const std::string& packing : packings) {
    const auto found = bucket.best_us.find(packing);
    if (found != bucket.best_us.end()) best = std::min(best, found->second);
  }
  return best;
}

double cost_at(const BucketTimes& bucket, const std::vector<std::string>& packings) {
  const double best = std::min(bucket.dense_us > 0 ? bucket.dense_us : kNever, fastest_of(bucket, packings));
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

bool fits(const std::vector<BucketTimes>& buckets, const PackingBytes& packing_bytes, const PackingLimits& limits,
          const std::vector<std::string>& kept) {
  if (kept.size() <= 1) return true;
  const std::int64_t beside = keeps_dense(buckets, kept) ? limits.dense_bytes : 0;
  return bytes_of(packing_bytes, kept) + beside <= limits.bytes;
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

// Exchanges packings one by one for those that lower the cost: what served every N at first may be in the way later.
void exchange(const std::vector<BucketTimes>& buckets, const std::set<std::string>& names,
              const PackingBytes& packing_bytes, const PackingLimits& limits, std::vector<std::string>& kept) {
  for (std::string& slot : kept) {
    for (const std::string& name : names) {
      if (std::find(kept.begin(), kept.end(), name) != kept.end()) continue;
      const double cost = cost_of(buckets, kept);
      std::string old = std::exchange(slot, name);
      if (!fits(buckets, packing_bytes, limits, kept) || cost_of(buckets, kept) >= cost) slot = std::move(old);
    }
  }
}

// Takes one packing after the other, behind those in `kept`, each time the one that lowers the cost most. Packings that
// later ones made superfluous are dropped.
std::vector<std::string> greedy(const std::vector<BucketTimes>& buckets, const std::set<std::string>& names,
                                const PackingBytes& packing_bytes, const PackingLimits& limits,
                                std::vector<std::string> kept) {
  double cost = cost_of(buckets, kept);
  while (static_cast<int>(kept.size()) < limits.packings) {
    std::string best;
    double best_cost = cost;
    for (const std::string& name : names) {
      std::vector<std::string> with = kept;
      with.push_back(name);
      if (!fits(buckets, packing_bytes, limits, with)) continue;
      const double now = cost_of(buckets, with);
      const bool smaller =
          now == best_cost && !best.empty() && bytes_of(packing_bytes, {name}) < bytes_of(packing_bytes, {best});
      if (now < best_cost || smaller) {
        best = name;
        best_cost = now;
      }
    }
    if (best.empty()) break;
    std::vector<std::string> with = kept;
    with.push_back(best);
    if (!kept.empty() && !worth_a_copy(buckets, kept, with)) break;
    for (std::size_t i = 0; i + 1 < with.size();) {
      std::vector<std::string> without = with;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      // (Without one, some N may need dense.)
      if (worth_a_copy(buckets, without, with) || !fits(buckets, packing_bytes, limits, without)) {
        ++i;
      } else {
        with = std::move(without);
      }
    }
    kept = std::move(with);
    exchange(buckets, names, packing_bytes, limits, kept);
    cost = cost_of(buckets, kept);
  }
  return cost < kNever / 2 ? kept : std::vector<std::string>();
}

// The best of what such walks come to from nothing and from each packing. (A large one that serves every N a little may
// come first, and leave no room for two small ones.)
std::vector<std::string> cheapest(const std::vector<BucketTimes>& buckets, const std::set<std::string>& names,
                                  const PackingBytes& packing_bytes, const PackingLimits& limits) {
  std::vector<std::string> best = greedy(buckets, names, packing_bytes, limits, {});
  for (const std::string& name : names) {
    std::vector<std::string> other = greedy(buckets, names, packing_bytes, limits, {name});
    const bool better = other.size() > best.size() ? worth_a_copy(buckets, best, other)
                                                   : cost_of(buckets, other) < cost_of(buckets, best);
    if (!other.empty() && better) best = std::move(other);
  }
  return best;
}

// At each N within the share `slowdown` of the fastest that is known there.
bool within_slowdown(const std::vector<BucketTimes>& buckets, const std::string& packing, double slowdown) {
  return std::ranges::all_of(buckets, [&](const BucketTimes& bucket) {
    double fastest = bucket.dense_us > 0 ? bucket.dense_us : kNever;
    for (const auto& [name, us] : bucket.best_us) fastest = std::min(fastest, us);
    return bucket.best_us.at(packing) <= (1 + slowdown) * fastest;
  });
}

bool no_slower_than_dense(const std::vector<BucketTimes>& buckets, const std::string& packing) {
  return std::ranges::all_of(buckets, [&](const BucketTimes& bucket) {
    const auto found = bucket.best_us.find(packing);
    return found != bucket.best_us.end() && (bucket.dense_us <= 0 || found->second <= bucket.dense_us);
  });
}

double spread(const Timing& timing) {
  return timing.median_us > 0 ? std::max(0.0, (timing.q3_us - timing.q1_us) / 2 / timing.median_us) : 0;
}

std::string kept_dense(double sparse_us, double dense_us) {
  if (sparse_us == kNever)
    return fmt::format("dense is kept: no sparse candidate passed; dense takes {:.2f} us", dense_us);
  return fmt::format("dense is kept: the best sparse candidate takes {:.2f} us, dense {:.2f} us", sparse_us, dense_us);
}

bool clearly_faster(const Timing& a, const Timing& b) { return a.median_us < b.median_us * (1 - noise_of(a, b)); }

}  // namespace

std::vector<std::string> choose_packings(const std::vector<BucketTimes>& buckets,
                                         const std::map<std::string, std::int64_t>& packing_bytes,
                                         const PackingLimits& limits, Objective objective,
                                         std::optional<double> max_slowdown) {
  std::set<std::string> names;
  for (const BucketTimes& bucket : buckets) {
    for (const auto& [name, us] : bucket.best_us) names.insert(name);
  }
  if (objective == Objective::kBytes) {
    std::vector<std::string> good;
    for (const std::string& name : names) {
      if (meets_bytes_objective(buckets, {name}, max_slowdown)) good.push_back(name);
    }
    const auto smallest = std::ranges::min_element(good, {}, [&](const std::string& name) {
      return std::pair(bytes_of(packing_bytes, {name}), cost_of(buckets, {name}));
    });
    if (smallest != good.end()) return {*smallest};
  }
  return cheapest(buckets, names, packing_bytes, limits);
}

bool meets_bytes_objective(const std::vector<BucketTimes>& buckets, const std::vector<std::string>& kept,
                           std::optional<double> max_slowdown) {
  return kept.size() == 1 && no_slower_than_dense(buckets, kept.front()) &&
         (!max_slowdown || within_slowdown(buckets, kept.front(), *max_slowdown));
}

bool keeps_dense(const std::vector<BucketTimes>& buckets, const std::vector<std::string>& kept) {
  bool measured = false;
  bool gains = false;
  for (const BucketTimes& bucket : buckets) {
    if (bucket.dense_us <= 0) continue;
    const double us = fastest_of(bucket, kept);
    if (bucket.dense_us < (1 - kNoise) * us) return true;
    measured = true;
    gains |= us < (1 - kNoise) * bucket.dense_us;
  }
  return measured && !gains;
}

double noise_of(const Timing& a, const Timing& b) { return std::max(kNoise, std::hypot(spread(a), spread(b))); }

std::optional<Decision> decide(const std::vector<Contender>& contenders, const std::vector<std::string>& packings,
                               const VendorTiming* dense, Objective objective, bool dense_kept) {
  const Contender* best = nullptr;
  const Contender* incumbent = nullptr;
  double best_of_any_packing = kNever;
  for (const Contender& contender : contenders) {
    if (contender.state != Contender::State::kTimed) continue;
    best_of_any_packing = std::min(best_of_any_packing, contender.timing.median_us);
    if (std::ranges::find(packings, contender.identity.packing) == packings.end()) continue;
    // Times of the final are comparable; a time from outside of it wins only where there is no other.
    const bool better =
        best == nullptr || (contender.in_final != best->in_final ? contender.in_final
                                                                 : contender.timing.median_us < best->timing.median_us);
    if (better) best = &contender;
    if (contender.incumbent) incumbent = &contender;
  }
  const bool has_dense = dense != nullptr && dense->supported;
  if (best == nullptr) {
    if (!has_dense) return std::nullopt;
    if (best_of_any_packing < dense->timing.median_us) {
      return Decision{nullptr,
                      fmt::format("dense is kept: a sparse candidate takes {:.2f} us, dense {:.2f} us, but its "
                                  "packing is none that the weight keeps for all its N (--packings)",
                                  best_of_any_packing, dense->timing.median_us)};
    }
    return Decision{nullptr, kept_dense(best_of_any_packing, dense->timing.median_us)};
  }
  if (incumbent != nullptr && !clearly_faster(best->timing, incumbent->timing)) best = incumbent;
  if (!has_dense) {
    return Decision{best, fmt::format("the fastest candidate; dense was not measured{}{}", dense ? ": " : "",
                                      dense ? dense->detail : "")};
  }
  const double ratio = dense->timing.median_us / best->timing.median_us;
  const bool smaller_and_as_fast = objective == Objective::kBytes && best->packed_bytes < dense->weight_bytes &&
                                   best->timing.median_us <= dense->timing.median_us;
  if (clearly_faster(best->timing, dense->timing) || smaller_and_as_fast) {
    return Decision{
        best, fmt::format("{:.2f}x as fast as dense ({} {:.2f} us)", ratio, dense->name, dense->timing.median_us)};
  }
  if (!dense_kept && !clearly_faster(dense->timing, best->timing)) {
    return Decision{best, fmt::format("as fast as dense ({} {:.2f} us), which is kept for no other N", dense->name,
                                      dense->timing.median_us)};
  }
  return Decision{nullptr, kept_dense(best->timing.median_us, dense->timing.median_us)};
}

}  // namespace sparsmith
