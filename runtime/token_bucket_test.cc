#include "runtime/token_bucket.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace sparsmith {
namespace {

TEST(TokenBucket, TakesTheSmallestThatHoldsTheTokens) {
  const std::vector<std::int64_t> buckets = {1, 8, 64};
  const std::vector<std::pair<std::int64_t, std::int64_t>> cases = {{0, 1},  {1, 1},   {2, 8},   {8, 8},
                                                                    {9, 64}, {64, 64}, {65, 64}, {1 << 20, 64}};
  for (const auto& [tokens, bucket] : cases) EXPECT_EQ(buckets[bucket_for(tokens, buckets)], bucket) << tokens;
}

TEST(TokenBucket, PropertiesHoldForDrawnBuckets) {
  constexpr std::uint64_t kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    std::set<std::int64_t> drawn;
    const std::size_t count = 1 + random() % 8;
    while (drawn.size() < count) drawn.insert(static_cast<std::int64_t>(1 + random() % 300));
    const std::vector<std::int64_t> buckets(drawn.begin(), drawn.end());
    std::size_t last = 0;
    for (std::int64_t tokens = 0; tokens <= 310; ++tokens) {
      const std::size_t index = bucket_for(tokens, buckets);
      ASSERT_LT(index, buckets.size());
      ASSERT_GE(index, last) << "it grows with the tokens";
      if (tokens > buckets.back()) {
        ASSERT_EQ(index, buckets.size() - 1);
      } else {
        ASSERT_GE(buckets[index], tokens) << "it holds the tokens";
        ASSERT_TRUE(index == 0 || buckets[index - 1] < tokens) << "none smaller does";
      }
      ASSERT_TRUE(!drawn.contains(tokens) || buckets[index] == tokens) << "a bucket is its own";
      last = index;
    }
  }
}

}  // namespace
}  // namespace sparsmith
