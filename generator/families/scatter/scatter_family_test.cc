#include "generator/families/scatter/scatter_family.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/family_checks.h"
#include "tests/support/packings.h"

namespace sparsmith::test {
namespace {

Config plain_config() {
  return Config{"scatter",
                {{"entry", 0},
                 {"tile_rows", 64},
                 {"min_rounds", 12},
                 {"max_rounds", 16},
                 {"token_tile", 8},
                 {"input_columns", 64},
                 {"warps", 16},
                 {"row_tiles", 1},
                 {"parts", 1},
                 {"tiles_ahead", 0},
                 {"input", 0}}};
}

TEST(ScatterFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  Random random(1);
  const CsrMatrix matrix = draw_matrix(random, 300, 1000, 0.2);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Family& scatter = scatter_family();
  for (const std::int64_t tokens : {2, 8, 16, 40, 64}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(scatter, problem, statistics);
    ASSERT_GT(space.configs.size(), 3U) << tokens;
    for (std::size_t i = 0; i < space.configs.size(); i += 5)
      expect_whole_candidate(scatter, space.configs[i], problem, matrix, statistics);
  }
}

TEST(ScatterFamilyTest, ARuleSaysWhatItForbids) {
  const Family& scatter = scatter_family();
  const SparsityStatistics statistics = uniform(8192, 8192, 0.1);
  const Problem problem = problem_of(8192, 8192, 8);
  EXPECT_TRUE(scatter.check(plain_config(), problem, statistics).ok());
  const Problem singles = problem_of(8192, 8192, 8, DataType::kFloat32);
  EXPECT_NE(scatter.check(plain_config(), singles, statistics).message().find("16-bit"), std::string::npos);
  const auto refused = [&](const std::map<std::string, std::int64_t>& values) {
    Config config = plain_config();
    for (const auto& [parameter, value] : values) config.values[parameter] = value;
    return !scatter.check(config, problem, statistics).ok();
  };
  EXPECT_TRUE(refused({{"min_rounds", 20}}));      // beyond the held ones
  EXPECT_TRUE(refused({{"input_columns", 128}}));  // wider than a tile
  EXPECT_FALSE(refused({{"input_columns", 128}, {"tile_rows", 32}}));
  EXPECT_FALSE(refused({{"tiles_ahead", 1}}));
  EXPECT_TRUE(refused({{"token_tile", 64}}));  // partial sums of 16 warps
  EXPECT_TRUE(refused({{"token_tile", 64}, {"input_columns", 256}, {"tile_rows", 16}, {"warps", 4}}));
}

// The tuner ranks by these: what is searched for a weight must hold what its tiles have.
TEST(ScatterFamilyTest, RoundsOfAUniformWeightAreForeseen) {
  Random random(9);
  for (const double density : {0.05, 0.1, 0.2, 0.3}) {
    const CsrMatrix matrix = draw_matrix(random, 512, 1024, density);
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const std::int64_t entry : {0, 1}) {
      Config config = plain_config();
      config.values["entry"] = entry;
      config.values["min_rounds"] = 0;
      const ScatterRounds rounds = scatter_rounds(ScatterConfig(config).packing(), statistics);
      const auto packed = pack_scatter(matrix, ScatterConfig(config).packing(), DataType::kFloat16);
      ASSERT_TRUE(packed.ok());
      const auto tiles = static_cast<double>(packed->facts.at("row_blocks") * packed->facts.at("column_tiles"));
      EXPECT_NEAR(rounds.mean, static_cast<double>(packed->facts.at("rounds")) / tiles, 0.8) << density;
      EXPECT_NEAR(rounds.mean + 1.64 * rounds.deviation, static_cast<double>(packed->facts.at("rounds_p95")), 2.1);
    }
  }
}

TEST(ScatterFamilyTest, SearchesWhereItMayWin) {
  const Family& scatter = scatter_family();
  const auto found = [&](double density, std::int64_t tokens) {
    return search_space(scatter, problem_of(8192, 8192, tokens), uniform(8192, 8192, density)).configs.size();
  };
  for (const std::int64_t tokens : {8, 16, 32}) {
    for (const double density : {0.1, 0.2, 0.3}) {
      const bool short_of_registers = tokens == 32 && density == 0.3;
      EXPECT_GE(found(density, tokens), short_of_registers ? 4U : 8U) << density << " " << tokens;
      // X as it lies, or not; columns in two orders up to 16 tokens.
      EXPECT_LE(found(density, tokens), tokens == 8 ? 120U : 240U) << density << " " << tokens;
    }
  }
  EXPECT_EQ(found(0.8, 8), 0U);
  EXPECT_EQ(found(0.005, 8), 0U);
  EXPECT_GE(found(0.2, 512), 4U) << "that dense is faster is for the cost model to say";
}

// As measured on an H200.
TEST(ScatterFamilyTest, TilesAreAskedForAheadFromSixteenTokensOn) {
  const Family& scatter = scatter_family();
  const auto best = [&](double density, std::int64_t tokens) {
    const SearchSpace space = search_space(scatter, problem_of(8192, 8192, tokens), uniform(8192, 8192, density));
    return ScatterConfig(space.configs.front().config);
  };
  for (const double density : {0.1, 0.2, 0.3}) {
    EXPECT_EQ(best(density, 8).tiles_ahead, 0) << density;
    EXPECT_EQ(best(density, 16).tiles_ahead, 1) << density;
    EXPECT_GE(best(density, 16).warps, 12) << density;
  }
}

// X that comes element by element is laid out as soon as the search may; elsewhere where it is large.
TEST(ScatterFamilyTest, XIsLaidOutWhereElementsAreSlow) {
  const Family& scatter = scatter_family();
  const auto best = [&](Layout layout, std::int64_t cols, std::int64_t tokens) {
    Problem problem = problem_of(8192, cols, tokens);
    problem.spec.layout = layout;
    const SearchSpace space = search_space(scatter, problem, uniform(8192, cols, 0.2));
    return ScatterConfig(space.configs.front().config).relayout;
  };
  EXPECT_FALSE(best(Layout::kTokenMajor, 8192, 8));
  EXPECT_TRUE(best(Layout::kTokenMajor, 8192, 32));
  EXPECT_TRUE(best(Layout::kFeatureMajor, 8192, 8));
  EXPECT_TRUE(best(Layout::kTokenMajor, 8191, 8));
  EXPECT_FALSE(best(Layout::kFeatureMajor, 8192, 4));
}

TEST(ScatterFamilyTest, ALaidOutXHasItsPlaceInTheWorkspace) {
  const Family& scatter = scatter_family();
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 100, 130, 0.2);  // three tiles of 64 columns: six chunks
  Config config = plain_config();
  config.values["token_tile"] = 16;
  config.values["warps"] = 8;
  config.values["input"] = 1;
  const Problem problem = problem_of(matrix, 40);
  const auto packed = scatter.pack(config, problem, matrix);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto candidate = scatter.generate(config, problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  ASSERT_EQ(candidate->plan.steps.size(), 2U);
  EXPECT_EQ(candidate->kernels.size(), 2U);
  for (const auto& [tokens, blocks] : {std::pair{1, 1}, std::pair{16, 1}, std::pair{17, 2}, std::pair{40, 3}})
    EXPECT_EQ(candidate->plan.workspace_bytes.evaluate({.n = tokens, .facts = &packed->facts}).value(),
              6 * 2 * blocks * 512)
        << tokens;
}

TEST(ScatterFamilyTest, KernelTextDependsOnTheNameAlone) {
  expect_text_depends_on_name_alone(scatter_family(), {{100, 500}, {200, 700}}, 0.2, 16);
}

}  // namespace
}  // namespace sparsmith::test
