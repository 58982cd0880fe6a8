#include "runtime/token_bucket.h"

#include <algorithm>

namespace sparsmith {

std::size_t bucket_for(std::int64_t tokens, std::span<const std::int64_t> buckets) {
  const auto found = std::lower_bound(buckets.begin(), buckets.end(), tokens);
  return static_cast<std::size_t>((found == buckets.end() ? buckets.end() - 1 : found) - buckets.begin());
}

}  // namespace sparsmith
