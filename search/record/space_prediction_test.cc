#include "search/record/space_prediction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "generator/search_space.h"
#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

constexpr double kBandwidth = 3.9e12;

class SpacePredictionTest : public testing::Test {
 protected:
  SpacePredictionTest() {
    problem_.spec = {.rows = 256, .cols = 512, .type = DataType::kFloat16};
    problem_.tokens = 8;
    problem_.device = typical_device(90);
    problem_.device.sm_count = 132;
    problem_.device.set_speeds(
        {.memory_bandwidth = kBandwidth, .l2_bandwidth = typical_l2_bandwidth(132, problem_.device.clock_khz)});
    space_.weight = "w";
    space_.operator_name = problem_.spec.name();
    space_.rows = problem_.spec.rows;
    space_.cols = problem_.spec.cols;
    space_.tokens = problem_.tokens;
    space_.device_class = "sm_90 132 SMs";
    space_.memory_bandwidth = kBandwidth;
    const SearchSpace searched = search_space(problem_, statistics_);
    std::set<std::string> families;
    for (const PredictedConfig& predicted : searched.configs) {
      if (space_.candidates.size() >= 200 && families.contains(predicted.config.family)) continue;
      families.insert(predicted.config.family);
      expected_.push_back(predicted.predicted_us);
      RecordedCandidate& candidate = space_.candidates.emplace_back();
      candidate.config = predicted.config;
      candidate.predicted_us = -1;
    }
    EXPECT_GE(families.size(), 4U);
  }

  std::vector<double> predictions() const {
    std::vector<double> all;
    for (const RecordedCandidate& candidate : space_.candidates) all.push_back(candidate.predicted_us);
    return all;
  }

  // Refused with `what` in its message, and nothing is changed.
  void expect_refused(const std::string& what) {
    const Status status = predict_again(space_, statistics_);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.to_string();
    EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
    EXPECT_TRUE(std::ranges::all_of(predictions(), [](double us) { return us == -1; }));
  }

  SparsityStatistics statistics_ = compute_statistics(
      synthesize({.rows = 256, .cols = 512, .sparsity = 0.8, .data_type = DataType::kFloat16, .seed = 7}).value());
  Problem problem_;
  RecordedSpace space_;
  std::vector<double> expected_;
};

TEST_F(SpacePredictionTest, ASearchsOwnPredictionsComeAgain) {
  const Status status = predict_again(space_, statistics_);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(predictions(), expected_);
}

TEST_F(SpacePredictionTest, LessBandwidthPredictsLongerTimes) {
  space_.memory_bandwidth = kBandwidth / 100;
  ASSERT_TRUE(predict_again(space_, statistics_).ok());
  const std::vector<double> slower = predictions();
  int more = 0;
  for (std::size_t i = 0; i < slower.size(); ++i) {
    EXPECT_GE(slower[i], expected_[i]) << space_.candidates[i].config.text();
    more += slower[i] > expected_[i] ? 1 : 0;
  }
  EXPECT_GT(more, 0);
}

TEST_F(SpacePredictionTest, AParameterThatCameLaterMayBeMissing) {
  for (RecordedCandidate& candidate : space_.candidates) {
    const auto parameters = family(candidate.config.family)->parameters;
    for (const Parameter& parameter : parameters)
      if (parameter.later && candidate.config.at(parameter.name) == 0) candidate.config.values.erase(parameter.name);
  }
  ASSERT_TRUE(predict_again(space_, statistics_).ok());
  EXPECT_EQ(predictions(), expected_);
}

TEST_F(SpacePredictionTest, WhatThisVersionDoesNotKnowIsRefusedAndChangesNothing) {
  RecordedCandidate& last = space_.candidates.back();
  const Config known = last.config;
  last.config.family = "wonder";
  expect_refused("no kernel family is called wonder");
  last.config = known;
  const std::string parameter = last.config.values.begin()->first;
  last.config.values.erase(parameter);
  expect_refused("have a parameter " + parameter);
  last.config = known;
  space_.device_class = "emulator sm_90 132 SMs";
  expect_refused("is no GPU's class");
}

}  // namespace
}  // namespace sparsmith
