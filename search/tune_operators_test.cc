// Several operators of each weight in one run: one set of packings under one bound of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/places.h"
#include "search/choice/training.h"
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
    EXPECT_EQ(choices[0].dense_us, device_.dense_us) << "of sddmm without the gather";
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

// The library computes the whole gradient, in the packing of other families of sddmm.
TEST_F(TunerOperatorsTest, ADenseProductServesTheGradientOfTheWeight) {
  options_.kinds = {OperatorKind::kSddmm};
  device_.time_us = [](const CompiledCandidate&) { return 100; };
  const TuneReport report = run({weight("w", 64, 96, 1)});
  for (const BucketChoice& bucket : report.weights.at(0).buckets) {
    EXPECT_TRUE(bucket.is_baseline());
    EXPECT_EQ(bucket.us(), device_.dense_us + 10);
    EXPECT_EQ(bucket.dense_us, device_.dense_us);
    EXPECT_THAT(bucket.reason, testing::HasSubstr("dense with its gather 30.00 us"));
    EXPECT_TRUE(bucket.candidate.packing.starts_with("csr_u16")) << bucket.candidate.packing;
  }
  EXPECT_TRUE(tuned_contents(report, {}).validate().ok()) << tuned_contents(report, {}).validate().to_string();
  device_.dense_us = 0;  // no library
  cache_ = "other.db";
  for (const BucketChoice& bucket : run({weight("w", 64, 96, 1)}).weights.at(0).buckets) {
    EXPECT_EQ(bucket.candidate.config.family, "sampled");
    EXPECT_EQ(bucket.dense_us, 0);
  }
}

// One bound for all packings and their places, and a report of a step.
TEST_F(TunerOperatorsTest, TrainingHasABoundOfItsOwn) {
  options_.train = true;
  options_.memory = 1;
  const TuneReport report = run({weight("w", 512, 1024, 1), weight("v", 64, 96, 2)});
  ASSERT_TRUE(report.training.has_value());
  EXPECT_TRUE(report.memory.unmet.empty()) << report.memory.unmet;
  const TrainingUse& use = *report.training;
  EXPECT_LE(use.bytes(), use.dense_bytes);
  std::int64_t most = 0;
  for (const WeightResult& each : report.weights) {
    std::int64_t bytes = 0;
    for (const PackedWeight& packed : each.packings) bytes += bytes_with_places(packed);
    EXPECT_LE(bytes, training_room(each));
    most += bytes + 768 * std::ssize(each.packings);  // where places are aligned
  }
  EXPECT_LE(use.packing_bytes + use.place_bytes, most);
  EXPECT_GT(use.packing_bytes, 0);
  EXPECT_GT(use.place_bytes, 0);
  ASSERT_EQ(use.steps.size(), 2U);
  for (const TrainingUse::Step& step : use.steps) {
    double us = 0;
    for (const WeightResult& each : report.weights)
      for (const BucketChoice& bucket : each.buckets) us += bucket.tokens == step.tokens ? bucket.us() : 0;
    EXPECT_DOUBLE_EQ(step.us, us);
    EXPECT_DOUBLE_EQ(step.dense_us, 6 * device_.dense_us);
  }
  options_.train = false;
  EXPECT_EQ(run({weight("w", 512, 1024, 1), weight("v", 64, 96, 2)}).cached, 0) << "chosen for another goal";
  options_.train = true;
  options_.kinds.pop_back();
  EXPECT_THAT(try_run({weight("w", 64, 96, 1)}).status().message(), testing::HasSubstr("training takes all operators"));
}

// Values move while a weight trains.
TEST_F(TunerOperatorsTest, ChoicesDependOnThePatternAlone) {
  options_.train = true;
  const TuneReport report = run({weight("w", 256, 512, 1)});
  cache_ = "other.db";
  const WeightInput moved = {"w", [] {
                               CsrMatrix matrix = sample_weight(256, 512, 0.1, 1);
                               for (std::size_t i = 0; i < matrix.values.size(); ++i)
                                 matrix.values[i] = i % 5 == 0 ? 0.0F : -3 * matrix.values[i];
                               return matrix;
                             }};
  const TuneReport later = run({moved});
  EXPECT_NE(later.weights.at(0).value_hash, report.weights.at(0).value_hash);
  EXPECT_EQ(later.weights[0].pattern_hash, report.weights[0].pattern_hash);
  ASSERT_EQ(later.weights[0].buckets.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const Candidate& before = report.weights[0].buckets[i].candidate;
    const Candidate& after = later.weights[0].buckets[i].candidate;
    EXPECT_EQ(after.config, before.config);
    EXPECT_EQ(after.packing, before.packing);
    EXPECT_EQ(after.plan, before.plan);
    EXPECT_EQ(after.kernels, before.kernels);
  }
}

TEST(TrainingBytes, AreThoseOfMixedPrecisionWithAdam) {
  EXPECT_EQ(masked_dense_bytes(10, 20, DataType::kFloat16), 200 * (2 + 2 + 4 + 8 + 1));
  EXPECT_EQ(masked_dense_bytes(10, 20, DataType::kFloat32), 200 * (4 + 4 + 8 + 1));
  EXPECT_EQ(sparse_state_bytes(20, DataType::kBFloat16), 20 * (2 + 4 + 8));
  EXPECT_EQ(sparse_state_bytes(20, DataType::kFloat32), 20 * (4 + 4 + 8));
  WeightResult weight;
  weight.rows = 10;
  weight.cols = 20;
  weight.type = DataType::kFloat16;
  weight.nnz = 20;
  EXPECT_EQ(training_room(weight), 200 * 17 - 20 * 14);
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
