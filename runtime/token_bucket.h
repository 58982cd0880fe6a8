// Buckets of N: a weight is tuned for a few numbers of tokens, and each number of tokens runs what was chosen for its
// bucket. The one mapping, used at tuning and at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sparsmith {

// The index of the smallest bucket >= tokens, or of the largest bucket where there is none.
// REQUIRES: `buckets` is not empty and ascends.
std::size_t bucket_for(std::int64_t tokens, std::span<const std::int64_t> buckets);

}  // namespace sparsmith
