// Buckets of N: a weight is tuned for a few numbers of tokens, and each number of tokens runs the choice of its bucket.
// Tuning and run time use the same mapping.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sparsmith {

// The index of the smallest bucket >= tokens, or else of the largest bucket.
//   tokens_of: gets the tokens of an element. `buckets` is not empty and in ascending order.
template <class Buckets, class Tokens = std::identity>
std::size_t bucket_for(std::int64_t tokens, const Buckets& buckets, const Tokens& tokens_of = {}) {
  const auto found = std::ranges::lower_bound(buckets, tokens, {}, tokens_of);
  return std::min<std::size_t>(found - buckets.begin(), buckets.size() - 1);
}

}  // namespace sparsmith
