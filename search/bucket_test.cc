#include "search/bucket.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace sparsmith {
namespace {

Contender timed(const std::string& packing, double us, bool in_final) {
  Contender contender;
  contender.identity.packing = packing;
  contender.state = Contender::State::kTimed;
  contender.timing.median_us = us;
  contender.in_final = in_final;
  return contender;
}

// Trials are shorter than the final, and by themselves: where a packing has times of the final, only those count.
TEST(TimesOfTest, TimesOfTheFinalComeFirst) {
  Bucket bucket;
  bucket.contenders.push_back(timed("dense", 34, true));
  bucket.contenders.back().baseline = true;
  bucket.contenders.push_back(timed("a", 8.2, false));
  bucket.contenders.push_back(timed("a", 9.1, true));
  bucket.contenders.push_back(timed("a", 9.0, true));
  bucket.contenders.push_back(timed("a", 8.1, false));
  bucket.contenders.push_back(timed("b", 8.6, true));
  bucket.contenders.push_back(timed("c", 8.8, false));
  bucket.contenders.push_back(timed("c", 8.7, false));
  bucket.contenders.push_back(timed("d", 1, true));
  bucket.contenders.back().state = Contender::State::kRejected;
  const BucketTimes times = times_of(bucket, false);
  EXPECT_EQ(times.dense_us, 34);
  EXPECT_EQ(times.best_us, (std::map<std::string, double>{{"a", 9.0}, {"b", 8.6}, {"c", 8.7}, {"dense", 34}}));
}

}  // namespace
}  // namespace sparsmith
