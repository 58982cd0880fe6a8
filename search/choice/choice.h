// From times to choices: the packings that a weight keeps, and the trial that serves each N. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tuned_file.h"
#include "search/trial/trial.h"

namespace sparsmith {

// The times of a weight at one N.
struct BucketTimes {
  double calls = 1;
  double dense_us = 0;                                     // of the baseline, with sddmm's gather; 0: not known
  std::map<std::string, double> best_us;                   // of each packing
  std::string dense_packing = std::string(kDensePacking);  // of the baseline
};

// No N may be slower than dense by more than this share, unless the bound on bytes has no room for dense.
inline constexpr double kMostSlowdown = 0.03;
// The most packings that a weight keeps.
inline constexpr int kMostPackings = 8;

// The packings to keep, of at most `most_bytes` together: those with the least time over all N, weighted by calls, such
// that every N is served within kMostSlowdown of dense. Where there is no such set, and the bound has no room for
// dense: those with the least time. A packing that saves next to no time is not kept. Of sets with nearly equal times
// the smallest is taken. Empty: there is none.
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

// The best baseline trial, whichever packings are kept. Null: none passed.
const Trial* baseline_of(const std::vector<Trial>& trials, bool predicted);

// The trial that serves one N.
struct Winner {
  const Trial* trial = nullptr;  // never null
  std::string reason;
};

// The fastest trial of the kept packings. An incumbent stays unless it is beaten by more than the noise; so does the
// baseline, if its packing is kept. nullopt: there is none.
//   beside_baseline: false: earlier choices are kept, however fast dense is.
//   predicted: untimed trials count with their predictions.
std::optional<Winner> choose_trial(const std::vector<Trial>& trials, const std::vector<std::string>& packings,
                                   bool beside_baseline, bool predicted);

}  // namespace sparsmith
