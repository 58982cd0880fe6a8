#include "generator/families/panel/panel_family.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config() {
  return Config{"panel",
                {{"products", 0},
                 {"segment_lanes", 1},
                 {"segment_length", 128},
                 {"row_parts", 2},
                 {"column_parts", 1},
                 {"threads_per_block", 512},
                 {"depth", 2},
                 {"input", 0},
                 {"store", 0},
                 {"panels", 0}}};
}

TEST(PanelFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) { expect_whole_candidates(panel_family()); }

TEST(PanelFamilyTest, ARuleSaysWhatItForbids) {
  const Family& family = panel_family();
  Random random(2);
  const CsrMatrix matrix = draw_matrix(random, 64, 512, 0.1);
  const SparsityStatistics statistics = compute_statistics(matrix);
  Problem problem = problem_of(matrix, 8);
  EXPECT_TRUE(family.check(plain_config(), problem, statistics).ok());
  const auto refused = [&](const char* parameter, std::int64_t value) {
    Config config = plain_config();
    config.values[parameter] = value;
    return !family.check(config, problem, statistics).ok();
  };
  EXPECT_TRUE(refused("column_parts", 5));
  EXPECT_FALSE(refused("column_parts", 32));
  problem.spec.cols = 16;
  EXPECT_TRUE(refused("column_parts", 4));  // parts of 8 columns: two would hold none
  problem.spec.cols = 30000;
  EXPECT_NE(family.check(plain_config(), problem, statistics).message().find("shared memory"), std::string::npos);
  EXPECT_FALSE(refused("column_parts", 3));
  problem.spec.type = DataType::kFloat32;
  Config tensor = plain_config();
  tensor.values["products"] = 1;
  EXPECT_NE(family.check(tensor, problem, statistics).message().find("16-bit"), std::string::npos);

  problem = problem_of(matrix, 8);
  tensor.values["store"] = 1;
  EXPECT_TRUE(family.check(tensor, problem, statistics).ok());
  problem.spec.epilogue.beta = true;  // a row that is stored twice would add the old Y twice
  EXPECT_FALSE(family.check(tensor, problem, statistics).ok());
  EXPECT_FALSE(refused("store", 1));
  EXPECT_TRUE(refused("store", 2));  // what waits has been rounded
  problem.spec.epilogue.beta = false;
  EXPECT_FALSE(refused("store", 2));
  problem.spec.type = DataType::kFloat32;
  EXPECT_TRUE(refused("store", 2));  // it would wait in as much room as its sums

  EXPECT_TRUE(refused("store", 3));  // of one part of K
  Config swept = plain_config();
  swept.values["store"] = 3;
  swept.values["column_parts"] = 2;
  EXPECT_TRUE(family.check(swept, problem, statistics).ok());
  swept.values["input"] = 3;
  EXPECT_FALSE(family.check(swept, problem, statistics).ok());
}

// With fewer parts of K the rows of a block would be several parts, each of which would fill all panels again.
TEST(PanelFamilyTest, ABlockThatGoesThroughKHasOnePartOfTheRows) {
  Random random(9);
  const CsrMatrix matrix = draw_matrix(random, 6000, 12000, 0.002);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const std::int64_t tokens : {32, 512}) {
    Problem problem = problem_of(matrix, tokens);
    problem.spec.type = DataType::kFloat32;
    std::size_t swept = 0;
    const SearchSpace space = search_space(panel_family(), problem, statistics);
    for (const PredictedConfig& predicted : space.configs) {
      if (predicted.config.at("store") != 3 || swept++ % 40 != 0) continue;
      const auto packed = panel_family().pack(predicted.config, problem, matrix);
      ASSERT_TRUE(packed.ok()) << packed.status().to_string();
      EXPECT_EQ(packed->facts.at("parts"), predicted.config.at("row_parts")) << predicted.config.text();
      const auto candidate = panel_family().generate(predicted.config, problem, *packed);
      ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
      EXPECT_LE(candidate->plan.steps.size(), predicted.config.at("input") == 1 ? 2U : 1U);  // nothing is left to add
    }
    EXPECT_GT(swept, 0U);
  }
}

// The configs that have been measured to win lie in the space that a search walks through.
TEST(PanelFamilyTest, KnownWinnersAreInTheSpace) {
  struct Winner {
    DataType type;
    Layout layout;
    std::int64_t tokens;
    const char* config;
  };
  using enum DataType;
  using enum Layout;
  const Winner winners[] = {
      {kFloat16, kTokenMajor, 8,
       "panel column_parts=1 depth=3 input=0 panels=0 products=0 row_parts=132 segment_lanes=4 segment_length=128 "
       "store=0 "
       "threads_per_block=512"},
      {kFloat16, kFeatureMajor, 8,
       "panel column_parts=1 depth=2 input=0 panels=0 products=0 row_parts=132 segment_lanes=4 segment_length=128 "
       "store=1 "
       "threads_per_block=512"},
      {kFloat16, kTokenMajor, 32,
       "panel column_parts=1 depth=2 input=0 panels=0 products=1 row_parts=33 segment_lanes=4 segment_length=128 "
       "store=0 "
       "threads_per_block=1024"},
      {kFloat16, kTokenMajor, 512,
       "panel column_parts=1 depth=2 input=0 panels=0 products=1 row_parts=2 segment_lanes=2 segment_length=128 "
       "store=0 "
       "threads_per_block=1024"},
      {kFloat32, kTokenMajor, 8,
       "panel column_parts=1 depth=6 input=0 panels=0 products=0 row_parts=66 segment_lanes=4 segment_length=128 "
       "store=0 "
       "threads_per_block=512"},
      {kFloat32, kTokenMajor, 512,
       "panel column_parts=1 depth=3 input=0 panels=0 products=0 row_parts=1 segment_lanes=1 segment_length=128 "
       "store=0 "
       "threads_per_block=1024"},
      {kFloat32, kTokenMajor, 512,
       "panel column_parts=2 depth=6 input=0 panels=1 products=0 row_parts=1 segment_lanes=2 segment_length=128 "
       "store=0 "
       "threads_per_block=512"},
  };
  Random random(7);
  const CsrMatrix matrix = draw_matrix(random, 8192, 8192, 0.01);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const Winner& winner : winners) {
    Problem problem = problem_of(matrix, winner.tokens);
    problem.spec.type = winner.type;
    problem.spec.layout = winner.layout;
    const auto config = Config::parse(winner.config);
    ASSERT_TRUE(config.ok()) << config.status().to_string();
    const SearchSpace space = search_space(panel_family(), problem, statistics);
    EXPECT_TRUE(std::ranges::any_of(space.configs, [&](const auto& predicted) { return predicted.config == *config; }))
        << winner.config;
  }
}

TEST(PanelFamilyTest, LanesChainProductsWhereTheOperatorAllowsIt) {
  const Family& family = panel_family();
  Random random(6);
  const CsrMatrix matrix = draw_matrix(random, 512, 2048, 0.05);
  const SparsityStatistics statistics = compute_statistics(matrix);
  Problem problem = problem_of(matrix, 64);
  Problem chained = problem;
  chained.spec.accumulation = Accumulation::kFp16Chains;
  const auto source_of = [&](const Config& config, const Problem& of) {
    const auto packed = family.pack(config, of, matrix);
    const auto candidate = family.generate(config, of, *packed);
    return candidate.ok() ? candidate->kernels.at(0).source : candidate.status().to_string();
  };
  EXPECT_NE(source_of(plain_config(), problem).find("PlainProducts<InputType, 1, 1, Fp32Products<InputType>>"),
            std::string::npos);
  EXPECT_NE(source_of(plain_config(), chained).find("PlainProducts<InputType, 1, 1, Fp16Chains>"), std::string::npos);
  EXPECT_LT(family.predict(plain_config(), chained, statistics), family.predict(plain_config(), problem, statistics));
  Config tensor = plain_config();
  tensor.values["products"] = 1;  // whose sums are fp32 anyway
  EXPECT_EQ(source_of(tensor, problem), source_of(tensor, chained));
  EXPECT_EQ(family.predict(tensor, chained, statistics), family.predict(tensor, problem, statistics));
}

// A row is one block's, however many parts there are.
TEST(PanelFamilyTest, ALongRowIsPredictedToTakeItsTime) {
  const Family& family = panel_family();
  Random random(5);
  const CsrMatrix matrix = draw_matrix(random, 4096, 8192, 0.05);
  const Problem problem = problem_of(matrix, 8);
  Config config = plain_config();
  config.values["row_parts"] = 132;
  const SparsityStatistics even = compute_statistics(matrix);
  SparsityStatistics uneven = even;
  uneven.row_max = even.nnz / 10;
  const double even_us = family.predict(config, problem, even);
  EXPECT_GT(family.predict(config, problem, uneven), 2 * even_us);
  uneven.row_max = even.nnz / 200;  // less than a part has
  EXPECT_DOUBLE_EQ(family.predict(config, problem, uneven), even_us);
}

TEST(PanelFamilyTest, BlocksFillPanelsTogetherWhereTheyMeet) {
  const Family& family = panel_family();
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 64, 512, 0.1);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const auto with = [](PanelConfig::Input input, std::int64_t row_parts) {
    Config config = plain_config();
    config.values["input"] = static_cast<std::int64_t>(input);
    config.values["row_parts"] = row_parts;
    return config;
  };
  const Config neighbours = with(PanelConfig::Input::kNeighbours, 1);
  const Config shared = with(PanelConfig::Input::kShared, 2);
  Problem problem = problem_of(matrix, 17);
  EXPECT_NE(family.check(neighbours, problem, statistics).message().find("feature-major"), std::string::npos);
  EXPECT_TRUE(family.check(shared, problem, statistics).ok());
  EXPECT_NE(family.check(with(PanelConfig::Input::kShared, 33), problem, statistics).message().find("pairs"),
            std::string::npos);
  problem.spec.layout = Layout::kFeatureMajor;
  for (const Config& config : {neighbours, shared}) EXPECT_TRUE(family.check(config, problem, statistics).ok());

  // Launches have whole clusters, whatever N is.
  for (const Config& config : {neighbours, shared}) {
    const auto packed = family.pack(config, problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto candidate = family.generate(config, problem, *packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    const PlanStep& step = candidate->plan.steps.at(0);
    for (const std::int64_t tokens : {1, 8, 9, 16, 17, 24, 33}) {
      std::int64_t blocks = 1;
      for (std::size_t i = 0; i < 3; ++i) {
        const std::int64_t cluster = *step.cluster[i].evaluate({.n = tokens});
        EXPECT_EQ(*step.grid[i].evaluate({.n = tokens}) % cluster, 0) << config.text() << ", N = " << tokens;
        blocks *= cluster;
      }
      EXPECT_EQ(blocks, 2);
      EXPECT_EQ(*step.grid[0].evaluate({.n = tokens}),
                PanelConfig(config).input == PanelConfig::Input::kShared ? (tokens + 7) / 8 : (tokens + 15) / 16 * 2);
    }
  }

  problem.device = typical_device(80);
  for (const Config& config : {neighbours, shared})
    EXPECT_NE(family.check(config, problem, statistics).message().find("clusters"), std::string::npos);
}

TEST(PanelFamilyTest, ABlockKeepsPanelsThatHaveTokensAndFitBesideEachOther) {
  const Family& family = panel_family();
  Random random(5);
  const CsrMatrix matrix = draw_matrix(random, 64, 4096, 0.1);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const auto with = [](std::int64_t panels, std::int64_t column_parts) {
    Config config = plain_config();
    config.values["panels"] = panels;
    config.values["column_parts"] = column_parts;
    return config;
  };
  Problem problem = problem_of(matrix, 20);
  EXPECT_TRUE(family.check(with(1, 1), problem, statistics).ok());
  EXPECT_NE(family.check(with(2, 1), problem, statistics).message().find("shared memory"), std::string::npos);
  EXPECT_TRUE(family.check(with(2, 2), problem, statistics).ok());
  Config neighbours = with(1, 1);
  neighbours.values["input"] = static_cast<std::int64_t>(PanelConfig::Input::kNeighbours);
  problem.spec.layout = Layout::kFeatureMajor;
  EXPECT_NE(family.check(neighbours, problem, statistics).message().find("one each"), std::string::npos);

  const auto packed = family.pack(with(1, 1), problem, matrix);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto candidate = family.generate(with(1, 1), problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  for (const std::int64_t tokens : {1, 16, 17, 33})
    EXPECT_EQ(*candidate->plan.steps.at(0).grid[0].evaluate({.n = tokens}), (tokens + 15) / 16);

  // Twice the tokens for one pass over a weight that N = 512 is bound by.
  problem = problem_of(matrix, 512);
  problem.spec.rows = 28672;
  SparsityStatistics dense = statistics;
  dense.rows = problem.spec.rows;
  dense.nnz = dense.rows * 410;
  Config two = with(1, 1);
  two.values["row_parts"] = 4;  // as many blocks
  EXPECT_LT(family.predict(two, problem, dense), 0.8 * family.predict(with(0, 1), problem, dense));
}

TEST(PanelFamilyTest, TheModelCountsWhatL2Sends) {
  const Family& family = panel_family();
  Random random(4);
  const CsrMatrix matrix = draw_matrix(random, 8192, 8192, 0.01);
  const SparsityStatistics statistics = compute_statistics(matrix);
  Problem problem = problem_of(matrix, 512);
  const auto predicted = [&](PanelConfig::Input input) {
    Config config = plain_config();
    config.values["row_parts"] = problem.tokens == 8 ? 132 : problem.tokens == 32 ? 33 : 2;
    config.values["input"] = static_cast<std::int64_t>(input);
    return family.predict(config, problem, statistics);
  };
  // As an H200 has it: half a sector of each column is not asked for twice where two blocks fill panels together, or a
  // launch has turned X in front, whichever is cheaper there; one panel is not worth the partner's network.
  problem.spec.layout = Layout::kFeatureMajor;
  EXPECT_LT(predicted(PanelConfig::Input::kNeighbours), predicted(PanelConfig::Input::kRelayout));
  problem.tokens = 32;
  EXPECT_LT(predicted(PanelConfig::Input::kRelayout), predicted(PanelConfig::Input::kNeighbours));
  problem.tokens = 8;
  problem.spec.layout = Layout::kTokenMajor;
  EXPECT_LT(predicted(PanelConfig::Input::kDirect), predicted(PanelConfig::Input::kShared));
}

// As an H200 has it: 5.7 and 5.9 us at N = 8, 49.5 and 57 at 512.
TEST(PanelFamilyTest, TheModelKnowsWhatSharedPanelsAndFewWarpsCost) {
  const Family& family = panel_family();
  Random random(4);
  const CsrMatrix matrix = draw_matrix(random, 8192, 8192, 0.01);
  const SparsityStatistics statistics = compute_statistics(matrix);
  Config config = plain_config();
  const auto predicted = [&](std::int64_t tokens, const char* parameter, std::int64_t value) {
    config.values[parameter] = value;
    return family.predict(config, problem_of(matrix, tokens), statistics);
  };
  config.values["segment_lanes"] = 4;
  const double of_few_blocks_us = predicted(8, "row_parts", 66);
  EXPECT_LT(predicted(8, "row_parts", 132), 1.1 * of_few_blocks_us);  // that fill the same panel

  config.values["segment_lanes"] = 2;
  config.values["row_parts"] = 2;
  config.values["products"] = static_cast<std::int64_t>(PanelConfig::Products::kTensor);
  config.values["depth"] = 6;
  const double of_few_warps_us = predicted(512, "threads_per_block", 512);
  config.values["depth"] = 3;
  EXPECT_LT(predicted(512, "threads_per_block", 1024), of_few_warps_us);
}

TEST(PanelFamilyTest, KernelTextDependsOnItsNameAlone) {
  expect_text_depends_on_name_alone(panel_family(), {{64, 512}, {300, 30000}});
}

}  // namespace
}  // namespace sparsmith::test
