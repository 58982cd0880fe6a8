// From times to choices: which packings a weight keeps, and which contender serves each N. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search/contender.h"

namespace sparsmith {

// What is known of a weight at one N.
struct BucketTimes {
  double calls = 1;
  double dense_us = 0;                    // of the baseline; 0: not known
  std::map<std::string, double> best_us;  // of each packing
};

// No N may take longer than dense by more than this share.
inline constexpr double kMostSlowdown = 0.03;
// A weight keeps no more packings than that.
inline constexpr int kMostPackings = 8;

// The packings to keep, of at most `most_bytes` together: those with the least time over all N, weighted by calls,
// where every N is served by one that is within kMostSlowdown of dense. A copy that saves next to no time is not
// kept, and of sets whose times differ by as little the smallest is taken. Empty: no set is such.
//   packing_bytes: GPU bytes of each packing.
std::vector<std::string> choose_packings(const std::vector<BucketTimes>& buckets,
                                         const std::map<std::string, std::int64_t>& packing_bytes,
                                         std::int64_t most_bytes);

// The least bytes with which choose_packings() finds something; 0: none are enough.
std::int64_t least_bytes(const std::vector<BucketTimes>& buckets,
                         const std::map<std::string, std::int64_t>& packing_bytes);

// Summed over all N, weighted by calls, each with the best of `packings`.
double time_with(const std::vector<BucketTimes>& buckets, const std::vector<std::string>& packings);

// How far apart two medians must be, as a share, before one is called faster: 1 % or their quartiles combined.
double noise_of(const Timing& a, const Timing& b);

// The best of the baseline, whichever packings are kept. Null: none passed.
const Contender* baseline_of(const std::vector<Contender>& contenders, bool predicted);

// Who serves one N.
struct Decision {
  const Contender* winner = nullptr;  // never null
  std::string reason;
};

// Among the contenders of the kept packings: the fastest, except that an incumbent stays unless it is beaten by more
// than the noise. Where the baseline's packing is among them, the baseline stays unless it is beaten by more than the
// noise. nullopt: there is none.
//   beside_baseline: false: earlier choices stand, whatever dense takes.
//   predicted: what waits takes what is predicted.
std::optional<Decision> decide(const std::vector<Contender>& contenders, const std::vector<std::string>& packings,
                               bool beside_baseline, bool predicted);

}  // namespace sparsmith
