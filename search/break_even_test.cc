#include "search/break_even.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Probes that are sparse where `sparse` says so; `asked` remembers every sparsity that was asked for.
MeasureProbes scripted_probes(std::vector<double>& asked, const std::function<bool(double)>& sparse) {
  return [&asked, sparse](std::span<const double> sparsities) -> Result<std::vector<BreakEvenProbe>> {
    std::vector<BreakEvenProbe> probes;
    for (const double sparsity : sparsities) {
      asked.push_back(sparsity);
      probes.push_back({sparsity, sparse(sparsity), sparse(sparsity) ? "rows" : "cublas", 1, 1, "measured"});
    }
    return probes;
  };
}

TEST(FindBreakEvenTest, IsWithinTheToleranceOfEveryThreshold) {
  for (double threshold = 0.31; threshold < 0.95; threshold += 0.0173) {
    std::vector<double> asked;
    const auto found = find_break_even({}, scripted_probes(asked, [&](double s) { return s >= threshold; }));
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    ASSERT_TRUE(found->dense_at && found->sparse_at) << threshold;
    EXPECT_LT(*found->dense_at, threshold);
    EXPECT_GE(*found->sparse_at, threshold);
    EXPECT_LE(*found->sparse_at - *found->dense_at, 0.01 + 1e-9);
    EXPECT_TRUE(found->changes_once);
    EXPECT_LE(asked.size(), 5U + 5U);
    EXPECT_EQ(asked.size(), found->probes.size());
    EXPECT_TRUE(std::ranges::is_sorted(found->probes, {}, &BreakEvenProbe::sparsity));
  }
}

TEST(FindBreakEvenTest, MeasuresBothEndsFirst) {
  std::vector<double> asked;
  const auto found =
      find_break_even({.low = 0.4, .high = 0.8, .points = 3}, scripted_probes(asked, [](double) { return true; }));
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(asked, ElementsAre(DoubleNear(0.4, 1e-12), DoubleNear(0.6, 1e-12), DoubleNear(0.8, 1e-12)));
  EXPECT_FALSE(found->dense_at.has_value());
  EXPECT_NEAR(found->sparse_at.value_or(0), 0.4, 1e-12) << "it may lie lower";
}

TEST(FindBreakEvenTest, MayLieAboveTheRange) {
  std::vector<double> asked;
  const auto found = find_break_even({}, scripted_probes(asked, [](double) { return false; }));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(asked.size(), 5U) << "there is nothing to bisect";
  EXPECT_FALSE(found->sparse_at.has_value());
  EXPECT_NEAR(found->dense_at.value_or(0), 0.95, 1e-12);
}

// Sparse, dense again, sparse: what counts is from where on it stays sparse, and that it changes more than once is
// said.
TEST(FindBreakEvenTest, BisectsTheLastChangeWhereThereAreSeveral) {
  std::vector<double> asked;
  const auto sparse = [](double s) { return (s > 0.4 && s < 0.5) || s > 0.7; };
  const auto found = find_break_even({}, scripted_probes(asked, sparse));
  ASSERT_TRUE(found.ok());
  EXPECT_NEAR(found->sparse_at.value_or(0), 0.7, 0.011);
  EXPECT_FALSE(found->changes_once);
}

TEST(FindBreakEvenTest, SaysWhatMakesNoSense) {
  std::vector<double> asked;
  const MeasureProbes probes = scripted_probes(asked, [](double) { return true; });
  for (const BreakEvenRange& range :
       {BreakEvenRange{.low = 0.9, .high = 0.5}, BreakEvenRange{.low = -0.1}, BreakEvenRange{.high = 1.5},
        BreakEvenRange{.points = 1}, BreakEvenRange{.tolerance = 0}}) {
    const auto found = find_break_even(range, probes);
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(asked.empty());
  const auto failed =
      find_break_even({}, [](auto) -> Result<std::vector<BreakEvenProbe>> { return device_error("gone"); });
  EXPECT_EQ(failed.status().code(), StatusCode::kDeviceError);
}

// Weights that are drawn and tuned, on a device where a kernel takes as long as its packing has bytes.
class BreakEvenOfDrawnTest : public TuneTest {
 protected:
  static constexpr double kBytesPerMicrosecond = 1000;
  SynthesisSpec spec_{.rows = 128, .cols = 256, .data_type = DataType::kFloat16, .seed = 3};

  void SetUp() override {
    TuneTest::SetUp();
    device_.dense_us = 128 * 256 * 2 / kBytesPerMicrosecond;
    device_.time_us = [this](const CompiledCandidate& candidate) {
      return static_cast<double>(device_.packed_bytes.at(candidate.packing)) / kBytesPerMicrosecond;
    };
  }

  Result<BreakEven> find(std::int64_t tokens) {
    return break_even_of_drawn(spec_, tokens, options_, {},
                               [this](std::span<const WeightInput> weights, const TuneOptions& options) {
                                 options_ = options;
                                 return try_run({weights.begin(), weights.end()});
                               });
  }
};

TEST_F(BreakEvenOfDrawnTest, FindsWhereThePackedWeightIsNoLarger) {
  options_.selection.families = {"rows"};
  const auto found = find(1);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_TRUE(found->dense_at && found->sparse_at);
  // A 16-bit column beside each value, and some offsets: half of the weight, and a little.
  EXPECT_GT(*found->sparse_at, 0.5);
  EXPECT_LT(*found->sparse_at, 0.62);
  for (const BreakEvenProbe& probe : found->probes) {
    EXPECT_EQ(probe.evidence, "measured");
    EXPECT_NEAR(probe.dense_us, device_.dense_us, 1e-9);
    EXPECT_EQ(probe.sparse, probe.choice.starts_with("rows ")) << probe.choice;
    EXPECT_TRUE(probe.sparse || probe.choice.starts_with("dense "));
    EXPECT_LE(probe.us, probe.dense_us);
  }
}

TEST_F(BreakEvenOfDrawnTest, TakesFromTheCacheWhatWasMeasured) {
  const auto found = find(8);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  const int timed = device_.timed;
  ASSERT_GT(timed, 0);
  const auto again = find(8);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(device_.timed, timed);
  EXPECT_EQ(again->sparse_at, found->sparse_at);
  ASSERT_EQ(again->probes.size(), found->probes.size());
  for (std::size_t i = 0; i < found->probes.size(); ++i) EXPECT_EQ(again->probes[i].choice, found->probes[i].choice);
}

TEST_F(BreakEvenOfDrawnTest, NeedsADenseProduct) {
  device_.dense_us = 0;
  const auto found = find(1);
  EXPECT_EQ(found.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(found.status().message().find("no dense product"), std::string::npos) << found.status().to_string();
}

TEST_F(BreakEvenOfDrawnTest, SaysWhyAWeightCannotBeDrawn) {
  spec_.rows = 0;
  const auto found = find(1);
  EXPECT_FALSE(found.ok());
}

}  // namespace
}  // namespace sparsmith
