#include "tools/perf/perf_suite.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace sparsmith::tools {
namespace {

using testing::ElementsAre;

constexpr const char* kSuite = R"({"rounds": 2, "repetitions": 7, "budget": "1m", "weights": [
  {"file": "model.safetensors", "include": ["*.fc1"], "tokens": [1, 8], "dtypes": ["fp16", "bf16"]},
  {"name": "drawn", "synth": {"shape": [64, 32], "sparsity": 0.5}, "tokens": [1, 64], "epilogue": "bias",
   "accumulation": "fp16_chains"}]})";

// "Measures" every N of weights called fc1 and drawn, and notes what it was asked for.
class SuiteTest : public testing::Test {
 protected:
  Recording measure(const TuneSettings& settings) {
    asked_.push_back(settings);
    const bool drawn = settings.file.find("model") == std::string::npos;
    EXPECT_EQ(std::filesystem::exists(settings.file), drawn);
    Recording recording;
    for (const std::int64_t n : settings.tuning.tokens) {
      PerfMeasurement m;
      m.key.name = fmt::format("{} N={}", drawn ? "drawn" : "a.fc1", n);
      m.key.operator_name = settings.dtype;
      m.samples_us = {1};
      recording.measurements.push_back(std::move(m));
    }
    return recording;
  }

  SuiteRun run() {
    SuiteRun run;
    run.folder = "models";
    run.measure = [this](const TuneSettings& settings) -> Result<Recording> { return measure(settings); };
    run.record = [this](int round, const Recording& recording) -> Result<bool> {
      for (const PerfMeasurement& m : recording.measurements)
        recorded_.push_back(fmt::format("{} {}{}", round, m.key.name, m.key.operator_name));
      return !stop_;
    };
    return run;
  }

  Suite suite_ = parse_suite(kSuite).value();
  std::vector<TuneSettings> asked_;
  std::vector<std::string> recorded_;
  bool stop_ = false;
};

TEST_F(SuiteTest, RoundsGoOverEverythingBeforeTheNextBegins) {
  ASSERT_TRUE(run_suite(suite_, run()).ok());
  EXPECT_THAT(recorded_, ElementsAre("0 a.fc1 N=1fp16", "0 a.fc1 N=8fp16", "0 a.fc1 N=1bf16", "0 a.fc1 N=8bf16",
                                     "0 drawn N=1", "0 drawn N=64", "1 a.fc1 N=1fp16", "1 a.fc1 N=8fp16",
                                     "1 a.fc1 N=1bf16", "1 a.fc1 N=8bf16", "1 drawn N=1", "1 drawn N=64"));
}

TEST_F(SuiteTest, WhatTheSuiteSaysReachesTheTuner) {
  ASSERT_TRUE(run_suite(suite_, run()).ok());
  ASSERT_EQ(asked_.size(), 6U);
  const TuneSettings& file = asked_[0];
  EXPECT_EQ(file.file, "models/model.safetensors");
  EXPECT_EQ(file.dtype, "fp16");
  EXPECT_EQ(file.budget, "1m");
  EXPECT_THAT(file.selection.include, ElementsAre("*.fc1"));
  EXPECT_THAT(file.tuning.tokens, ElementsAre(1, 8));
  EXPECT_EQ(file.tuning.timing.min_replays, 7);
  EXPECT_TRUE(file.tuning.compare);
  EXPECT_FALSE(file.cache.empty());
  EXPECT_EQ(file.cache, asked_[5].cache);  // what the first round chose, the others measure
  EXPECT_THAT(asked_[2].epilogues, ElementsAre("bias"));
  EXPECT_EQ(asked_[2].accumulation, "fp16_chains");
  EXPECT_EQ(file.accumulation, "fp32");
}

TEST_F(SuiteTest, OnlyTheCasesThatAreAskedFor) {
  SuiteRun some = run();
  some.cases = {"drawn N=64", "a.fc1 N=8"};
  ASSERT_TRUE(run_suite(suite_, some).ok());
  EXPECT_THAT(recorded_, ElementsAre("0 a.fc1 N=8fp16", "0 a.fc1 N=8bf16", "0 drawn N=64", "1 a.fc1 N=8fp16",
                                     "1 a.fc1 N=8bf16", "1 drawn N=64"));
  EXPECT_THAT(asked_[0].selection.include, ElementsAre("a.fc1"));
  some.cases = {"drawn N=2"};
  EXPECT_EQ(run_suite(suite_, some).code(), StatusCode::kInvalidInput);
}

TEST_F(SuiteTest, NamesOfCasesAreNoPatterns) {
  SuiteRun some = run();
  some.cases = {"a[0]*.fc1 N=1", "a.fc2 N=1"};
  some.keep_choices = true;
  ASSERT_TRUE(run_suite(suite_, some).ok());
  EXPECT_THAT(asked_[0].selection.include, ElementsAre("a\\[0]\\*.fc1"));  // fc2 is not of this suite
  EXPECT_TRUE(asked_[0].tuning.keep_choices);
}

TEST_F(SuiteTest, WhatNeedsNoFurtherRoundGetsNone) {
  stop_ = true;
  ASSERT_TRUE(run_suite(suite_, run()).ok());
  EXPECT_EQ(asked_.size(), 3U);
}

TEST_F(SuiteTest, ErrorsNameTheWeight) {
  SuiteRun failing = run();
  failing.measure = [](const TuneSettings&) -> Result<Recording> { return no_device("no GPU"); };
  EXPECT_EQ(run_suite(suite_, failing).message(), "model.safetensors: no GPU");
  suite_.weights[1].drawn.pattern = "plaid";
  EXPECT_EQ(run_suite(suite_, run()).message().substr(0, 7), "drawn: ");
}

}  // namespace
}  // namespace sparsmith::tools
