// Several operators of each weight in one run: one set of packings under one bound of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search/record/tuned_output.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

using testing::ElementsAre;

class TunerOperatorsTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    options_.kinds = {OperatorKind::kSpmm, OperatorKind::kSpmmTransposed, OperatorKind::kSddmm};
    options_.tokens = {1, 8};
  }
  static std::vector<OperatorKind> kinds_of(const WeightResult& weight) {
    std::vector<OperatorKind> kinds;
    for (const auto choices : weight.operators()) kinds.push_back(choices.front().spec.kind);
    return kinds;
  }
};

TEST_F(TunerOperatorsTest, EachHasItsChoices) {
  options_.epilogue = *Epilogue::parse("bias+relu");
  const TuneReport report = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(report.pairs, 6);
  const WeightResult& result = report.weights.at(0);
  EXPECT_THAT(kinds_of(result), ElementsAre(OperatorKind::kSpmm, OperatorKind::kSpmmTransposed, OperatorKind::kSddmm));
  for (const auto choices : result.operators()) {
    ASSERT_EQ(choices.size(), 2U);
    EXPECT_EQ(choices[0].tokens, 1);
    EXPECT_EQ(choices[1].tokens, 8);
    EXPECT_EQ(choices[0].spec.epilogue.bias, choices[0].spec.kind == OperatorKind::kSpmm) << "of spmm alone";
    EXPECT_EQ(choices[0].dense_us > 0, choices[0].spec.multiplies_weight());
  }
  EXPECT_EQ(device_.weights_set, 3) << "once for each operator";
  const TunedContents contents = tuned_contents(report, {});
  EXPECT_TRUE(contents.validate().ok()) << contents.validate().to_string();
  ASSERT_EQ(contents.weights.size(), 1U);
  EXPECT_EQ(contents.weights[0].operators.size(), 3U);
  EXPECT_EQ(contents.weights[0].packed_bytes(), result.gpu_bytes());
}

// Products with the weight and with its transpose may share the dense packing; it counts once.
TEST_F(TunerOperatorsTest, SharedPackingsCountOnce) {
  options_.kinds = {OperatorKind::kSpmm, OperatorKind::kSpmmTransposed};
  options_.memory = 1;
  device_.dense_us = 2;
  const WeightResult result = run({weight("w", 64, 96, 1)}).weights.at(0);
  for (const BucketChoice& bucket : result.buckets) EXPECT_TRUE(bucket.is_baseline());
  EXPECT_EQ(result.packings.size(), 1U);
  EXPECT_EQ(result.gpu_bytes(), result.dense_bytes());
}

// What fits for each operator by itself need not fit for all.
TEST_F(TunerOperatorsTest, OneBoundHoldsForAll) {
  const std::vector<WeightInput> weights = {weight("w", 512, 1024, 1)};
  options_.memory = 16;
  const WeightResult free = run(weights).weights.at(0);
  for (const double memory : {0.5, 0.6, 0.8, 1.0}) {
    options_.memory = memory;
    const TuneReport report = run(weights);
    const WeightResult& bounded = report.weights.at(0);
    if (report.memory.unmet.empty()) {
      EXPECT_LE(static_cast<double>(bounded.gpu_bytes()), memory * static_cast<double>(bounded.dense_bytes()));
    } else {
      EXPECT_THAT(report.memory.unmet, testing::HasSubstr("cannot be met"));
    }
    EXPECT_EQ(bounded.buckets.size(), 6U);
  }
  // A model's bound exchanges the choices of all operators together.
  options_.memory = 1;
  options_.model_bytes = free.gpu_bytes() - 1;
  const TuneReport model = run(weights);
  const WeightResult& exchanged = model.weights.at(0);
  EXPECT_TRUE(!model.memory.unmet.empty() || exchanged.gpu_bytes() <= options_.model_bytes);
  EXPECT_THAT(kinds_of(exchanged), testing::ElementsAreArray(options_.kinds));
  EXPECT_TRUE(tuned_contents(model, {}).validate().ok()) << tuned_contents(model, {}).validate().to_string();
}

TEST_F(TunerOperatorsTest, TheCacheHasThemAllOrSearchesAgain) {
  const std::vector<WeightInput> weights = {weight("w", 64, 96, 1)};
  const TuneReport first = run(weights);
  const int timed = device_.timed;
  const TuneReport again = run(weights);
  EXPECT_EQ(again.cached, 6);
  EXPECT_EQ(device_.timed, timed);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(again.weights[0].buckets[i].candidate.config, first.weights[0].buckets[i].candidate.config) << i;
  options_.kinds = {OperatorKind::kSpmm};
  EXPECT_EQ(run(weights).cached, 0) << "packings were chosen for others too";
}

TEST_F(TunerOperatorsTest, ArePredictedWhereNothingCanBeTimed) {
  device_.properties.is_emulator = true;
  const TuneReport report = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(report.pairs, 6);
  for (const BucketChoice& bucket : report.weights.at(0).buckets) {
    EXPECT_EQ(bucket.evidence, "predicted");
    EXPECT_TRUE(bucket.verification.ok);
  }
}

// Weights of one pattern, so that all they could share is at hand.
TEST_F(TunerOperatorsTest, EachWeightHasItsOwnEpilogue) {
  std::vector<WeightInput> weights = {weight("a", 64, 96, 1), weight("b", 64, 96, 1), weight("c", 64, 96, 1)};
  weights[1].epilogue = *Epilogue::parse("gelu");
  weights[2].epilogue = Epilogue();
  options_.epilogue = *Epilogue::parse("bias");
  for (const bool several : {false, true}) {
    SCOPED_TRACE(several);
    options_.kinds = {OperatorKind::kSpmm};
    if (several) options_.kinds.push_back(OperatorKind::kSpmmTransposed);
    options_.transfer = false;  // each is searched in full
    const TuneReport report = run(weights);
    ASSERT_EQ(report.weights.size(), 3U);
    const TunedContents contents = tuned_contents(report, {});
    EXPECT_TRUE(contents.validate().ok()) << contents.validate().to_string();
    std::vector<std::string> epilogues;
    for (const TunedWeight& tuned : contents.weights) {
      epilogues.push_back(tuned.operators[0].spec.epilogue.name());
      EXPECT_EQ(tuned.operators.back().spec.epilogue == Epilogue(), several || tuned.name == "c");
    }
    EXPECT_THAT(epilogues, ElementsAre("bias", "gelu", "none"));
  }
}

TEST_F(TunerOperatorsTest, TheCacheKnowsTheEpiloguesOfEachWeight) {
  options_.kinds = {OperatorKind::kSpmm, OperatorKind::kSpmmTransposed};
  std::vector<WeightInput> weights = {weight("w", 64, 96, 1)};
  weights[0].epilogue = *Epilogue::parse("bias");
  EXPECT_EQ(run(weights).cached, 0);
  EXPECT_EQ(run(weights).cached, 4);
  // The transposed product's packings are chosen together with those of the product with this epilogue.
  weights[0].epilogue = *Epilogue::parse("gelu");
  EXPECT_EQ(run(weights).cached, 0);
  weights[0].epilogue = *Epilogue::parse("bias");
  EXPECT_EQ(run(weights).cached, 0);
}

TEST_F(TunerOperatorsTest, AnEpilogueThatAnOperatorCannotHaveNamesItsWeight) {
  options_.kinds = {OperatorKind::kSddmm};
  std::vector<WeightInput> weights = {weight("a", 64, 96, 1), weight("b", 64, 96, 1)};
  weights[1].epilogue = *Epilogue::parse("bias");
  const Status status = try_run(weights).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::StartsWith("b: "));
}

TEST_F(TunerOperatorsTest, NoneIsAskedForTwice) {
  options_.kinds.push_back(OperatorKind::kSpmm);
  EXPECT_THAT(try_run({weight("w", 64, 96, 1)}).status().message(), testing::HasSubstr("spmm is asked for twice"));
  options_.kinds.clear();
  EXPECT_EQ(try_run({weight("w", 64, 96, 1)}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sparsmith
