#include "search/choice/bucket.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace sparsmith {
namespace {

Trial timed(const std::string& packing, double us, bool in_final) {
  Trial trial;
  trial.identity.packing = packing;
  trial.state = Trial::State::kTimed;
  trial.timing.median_us = us;
  trial.in_final = in_final;
  return trial;
}

// Trials are shorter than the final, and by themselves: where a packing has times of the final, only those count.
TEST(TimesOfTest, TimesOfTheFinalComeFirst) {
  Bucket bucket;
  bucket.trials.push_back(timed("dense", 34, true));
  bucket.trials.back().baseline = true;
  bucket.trials.push_back(timed("a", 8.2, false));
  bucket.trials.push_back(timed("a", 9.1, true));
  bucket.trials.push_back(timed("a", 9.0, true));
  bucket.trials.push_back(timed("a", 8.1, false));
  bucket.trials.push_back(timed("b", 8.6, true));
  bucket.trials.push_back(timed("c", 8.8, false));
  bucket.trials.push_back(timed("c", 8.7, false));
  bucket.trials.push_back(timed("d", 1, true));
  bucket.trials.back().state = Trial::State::kRejected;
  const BucketTimes times = times_of(bucket, false);
  EXPECT_EQ(times.dense_us, 34);
  EXPECT_EQ(times.best_us, (std::map<std::string, double>{{"a", 9.0}, {"b", 8.6}, {"c", 8.7}, {"dense", 34}}));
}

}  // namespace
}  // namespace sparsmith
