#include "base/parallel_for.h"

#include <gtest/gtest.h>

#include "base/ceil_div.h"

namespace sparsmith {
namespace {

TEST(ParallelForTest, VisitsEachIndexOnceInRangesOfTheGrain) {
  for (const std::int64_t count : {0, 1, 7, 64, 1000}) {
    for (const std::int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> visits(count);
      std::atomic<std::int64_t> ranges = 0;
      parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_LT(begin, end);
        EXPECT_LE(end - begin, grain);
        EXPECT_EQ(begin % grain, 0);
        ++ranges;
        for (std::int64_t i = begin; i < end; ++i) ++visits[i];
      });
      for (const std::atomic<int>& each : visits) EXPECT_EQ(each, 1) << count << " by " << grain;
      EXPECT_EQ(ranges, ceil_div(count, grain)) << count << " by " << grain;
    }
  }
}

TEST(ParallelForTest, AGrainOfRowsIsWorthAThread) {
  EXPECT_EQ(grain_of_rows(0), 32768);
  EXPECT_EQ(grain_of_rows(1), 32768);
  EXPECT_EQ(grain_of_rows(100), 384);  // 327 rows, up to a multiple of 64
  EXPECT_EQ(grain_of_rows(32768), 64);
  EXPECT_EQ(grain_of_rows(1 << 20), 64);
}

TEST(CeilDivTest, RoundsUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
}

}  // namespace
}  // namespace sparsmith
