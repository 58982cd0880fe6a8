#include "generator/families/gather/gather_family.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config() {
  return Config{"gather",
                {{"token_lanes", 2},
                 {"segment_lanes", 4},
                 {"segment_length", 128},
                 {"row_parts", 66},
                 {"threads_per_block", 512},
                 {"sweep_columns", 0},
                 {"depth", 2},
                 {"ahead", 0}}};
}

TEST(GatherFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) { expect_whole_candidates(gather_family()); }

TEST(GatherFamilyTest, ARuleSaysWhatItForbids) {
  const Family& family = gather_family();
  Random random(2);
  const CsrMatrix matrix = draw_matrix(random, 64, 512, 0.1);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Problem problem = problem_of(matrix, 32);
  EXPECT_TRUE(family.check(plain_config(), problem, statistics).ok());
  Config config = plain_config();
  config.values["segment_lanes"] = 32;
  EXPECT_NE(family.check(config, problem, statistics).message().find("one warp"), std::string::npos);
  config.values["token_lanes"] = 1;
  EXPECT_TRUE(family.check(config, problem, statistics).ok());
  config = plain_config();
  config.values["ahead"] = 1;
  EXPECT_NE(family.check(config, problem, statistics).message().find("four steps"), std::string::npos);
  config.values["depth"] = 4;
  EXPECT_TRUE(family.check(config, problem, statistics).ok());
  Problem small = problem;
  small.device.shared_bytes_per_block = 8 * 1024;
  EXPECT_NE(family.check(plain_config(), small, statistics).message().find("shared memory"), std::string::npos);
}

// Token-major X is turned by a step of its own; feature-major X is read as it lies, whatever K.
TEST(GatherFamilyTest, OnlyTokenMajorInputIsTurned) {
  const Family& family = gather_family();
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 80, 70000, 0.001);
  Problem problem = problem_of(matrix, 32);
  for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
    problem.spec.layout = layout;
    const auto packed = family.pack(plain_config(), problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto candidate = family.generate(plain_config(), problem, *packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    const bool turned = layout == Layout::kTokenMajor;
    EXPECT_EQ(candidate->plan.steps.size(), turned ? 2U : 1U);
    EXPECT_EQ(candidate->plan.workspace_bytes.evaluate({.n = 32}).value(),
              turned ? (70001 * 32 * 2 + 255) / 256 * 256 : 0);
  }
}

// The configs that have been measured to win lie in the space that a search walks through.
TEST(GatherFamilyTest, KnownWinnersAreInTheSpace) {
  Random random(7);
  const CsrMatrix matrix = draw_matrix(random, 11008, 4096, 0.001);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const auto found = [&](DataType type, Layout layout, std::int64_t tokens, const char* text) {
    Problem problem = problem_of(matrix, tokens);
    problem.spec.type = type;
    problem.spec.layout = layout;
    const SearchSpace space = search_space(gather_family(), problem, statistics);
    const auto config = Config::parse(text);
    return config.ok() &&
           std::ranges::any_of(space.configs, [&](const auto& predicted) { return predicted.config == *config; });
  };
  EXPECT_TRUE(found(DataType::kFloat16, Layout::kTokenMajor, 512,
                    "gather ahead=0 depth=2 row_parts=16 segment_lanes=1 segment_length=32 sweep_columns=0 "
                    "threads_per_block=1024 token_lanes=8"));
  EXPECT_TRUE(found(DataType::kFloat16, Layout::kFeatureMajor, 32,
                    "gather ahead=0 depth=2 row_parts=132 segment_lanes=1 segment_length=32 sweep_columns=0 "
                    "threads_per_block=1024 token_lanes=4"));
  EXPECT_TRUE(found(DataType::kFloat32, Layout::kTokenMajor, 512,
                    "gather ahead=1 depth=4 row_parts=33 segment_lanes=1 segment_length=32 sweep_columns=0 "
                    "threads_per_block=1024 token_lanes=8"));
}

TEST(GatherFamilyTest, LanesChainProductsWhereTheOperatorAllowsIt) {
  const Family& family = gather_family();
  Random random(6);
  const CsrMatrix matrix = draw_matrix(random, 512, 2048, 0.05);
  Problem problem = problem_of(matrix, 64);
  const double fp32_us = family.predict(plain_config(), problem, compute_statistics(matrix));
  problem.spec.accumulation = Accumulation::kFp16Chains;
  const auto packed = family.pack(plain_config(), problem, matrix);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto candidate = family.generate(plain_config(), problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  EXPECT_NE(candidate->kernels.at(0).source.find("GatheredProducts<Input, 4, false, Fp16Chains>"), std::string::npos);
  EXPECT_LT(family.predict(plain_config(), problem, compute_statistics(matrix)), fp32_us);
}

// What a block cannot keep in shared memory: panels lose to gathers where filling one costs more than the weight.
TEST(GatherFamilyTest, TheSparserTheWeightTheBetterItRanks) {
  const Family& gather = *family("gather");
  const Family& panel = *family("panel");
  const auto ratio = [&](double density) {
    Random random(4);
    const CsrMatrix matrix = draw_matrix(random, 2048, 8192, density);
    const SparsityStatistics statistics = compute_statistics(matrix);
    Problem problem = problem_of(matrix, 32);
    problem.spec.layout = Layout::kFeatureMajor;
    return search_space(gather, problem, statistics).configs.at(0).predicted_us /
           search_space(panel, problem, statistics).configs.at(0).predicted_us;
  };
  EXPECT_LT(ratio(0.001), 1.0);
  EXPECT_LT(ratio(0.001), ratio(0.02));
}

// A row is one block's, however many parts there are.
TEST(GatherFamilyTest, ALongRowIsPredictedToTakeItsTime) {
  const Family& family = gather_family();
  Random random(5);
  const CsrMatrix matrix = draw_matrix(random, 4096, 8192, 0.01);
  const Problem problem = problem_of(matrix, 8);
  const SparsityStatistics even = compute_statistics(matrix);
  SparsityStatistics uneven = even;
  uneven.row_max = even.nnz / 4;
  const double even_us = family.predict(plain_config(), problem, even);
  EXPECT_GT(family.predict(plain_config(), problem, uneven), 2 * even_us);
  uneven.row_max = even.nnz / 200;  // less than a part has
  EXPECT_DOUBLE_EQ(family.predict(plain_config(), problem, uneven), even_us);
}

// Each piece of a row puts sums; a segment longer than the rows cuts none.
TEST(GatherFamilyTest, RowsInManyPiecesArePredictedToTakeLonger) {
  Random random(8);
  const CsrMatrix matrix = draw_matrix(random, 4096, 8192, 0.01);  // 82 nonzeros a row
  const auto predicted = [&](std::int64_t segment_length) {
    Config config = plain_config();
    config.values["segment_length"] = segment_length;
    return gather_family().predict(config, problem_of(matrix, 32), compute_statistics(matrix));
  };
  EXPECT_GT(predicted(16), 1.1 * predicted(64));
  EXPECT_DOUBLE_EQ(predicted(128), predicted(256));
}

TEST(GatherFamilyTest, KernelTextDependsOnItsNameAlone) {
  expect_text_depends_on_name_alone(gather_family(), {{64, 512}, {300, 70000}});
}

}  // namespace
}  // namespace sparsmith::test
