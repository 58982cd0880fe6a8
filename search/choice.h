// From times to choices: which packings a weight keeps, and which contender serves each N. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search/contender.h"

namespace sparsmith {

enum class Objective : std::uint8_t {
  kTime,   // the least summed time
  kBytes,  // the fewest GPU bytes among those no slower than dense, and within the slow-down that is allowed
};

// What is known of a weight at one N.
struct BucketTimes {
  double calls = 1;
  double dense_us = 0;                    // 0: not known
  std::map<std::string, double> best_us;  // of each packing
};

// What a weight may keep.
struct PackingLimits {
  int packings = 1;
  // Of several packings together, and of the dense weight beside them where it is kept for some N. One packing may be
  // kept in any case, beside the dense weight too.
  std::int64_t bytes = 0;
  std::int64_t dense_bytes = 0;  // of the dense weight
};

// The packings to keep within `limits`: those with the least time over all N, weighted by calls, where each N takes the
// best of them and dense. An N that a packing does not serve, and dense neither, rules the packing out unless another
// one kept serves it. Empty when dense is best throughout, or nothing serves every N.
//   packing_bytes: GPU bytes of each packing; ties go to the smaller.
//   max_slowdown: for kBytes, by how much each N may take longer than its fastest, as a share; empty: dense is the
//   only bound.
std::vector<std::string> choose_packings(const std::vector<BucketTimes>& buckets,
                                         const std::map<std::string, std::int64_t>& packing_bytes,
                                         const PackingLimits& limits, Objective objective,
                                         std::optional<double> max_slowdown = std::nullopt);

// Whether `kept` is what the objective kBytes asks for: one packing that is no slower than dense, and within
// max_slowdown, at every N. Otherwise choose_packings() has gone by time.
bool meets_bytes_objective(const std::vector<BucketTimes>& buckets, const std::vector<std::string>& kept,
                           std::optional<double> max_slowdown);
inline constexpr const char* kTimeDecided =
    "by time, not memory: no packing is fast enough at every N for the objective memory";

// Whether the dense weight stays beside the packings `kept`: some N needs it, since none of them serves that N or dense
// is faster by more than the noise; or no N gains more than the noise by them. Where dense was not measured, it does
// not.
bool keeps_dense(const std::vector<BucketTimes>& buckets, const std::vector<std::string>& kept);

// How far apart two medians must be, as a share, before one is called faster: 1 % or their quartiles combined.
double noise_of(const Timing& a, const Timing& b);

// Who serves one N.
struct Decision {
  const Contender* winner = nullptr;  // null: dense stays
  std::string reason;
};

// Among the contenders of the kept packings: the fastest, except that an incumbent stays unless it is beaten by more
// than the noise, and dense stays unless it is; for kBytes, unless the packing is as fast. Where the dense weight
// does not stay (`dense_kept`: keeps_dense()), it is not kept for times within the noise: it must be faster by more.
// `dense` may be null (not measured). nullopt when there is neither.
std::optional<Decision> decide(const std::vector<Contender>& contenders, const std::vector<std::string>& packings,
                               const VendorTiming* dense, Objective objective = Objective::kTime,
                               bool dense_kept = true);

}  // namespace sparsmith
