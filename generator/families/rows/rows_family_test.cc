#include "generator/families/rows/rows_family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

// Row lengths up to twice their mean.
CsrMatrix draw_weight(std::int64_t rows, std::int64_t cols, std::int64_t mean, std::uint64_t seed) {
  Random random(seed);
  return draw_matrix(random, rows, cols, [&](std::int64_t) {
    return static_cast<double>(random() % static_cast<std::uint64_t>(2 * mean)) / static_cast<double>(cols);
  });
}

Config plain_config() {
  return Config{"rows",
                {{"index_bits", 16},
                 {"vector_width", 4},
                 {"alignment", 4},
                 {"row_order", 0},
                 {"split_length", 0},
                 {"partial_sums", 0},
                 {"token_lanes", 1},
                 {"tokens_per_thread", 1},
                 {"shuffle_lanes", 8},
                 {"shared_parts", 1},
                 {"rows_per_group", 1},
                 {"unroll", 1},
                 {"input", 0},
                 {"threads_per_block", 128},
                 {"blocks_per_sm", 0}}};
}

TEST(RowsFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const CsrMatrix matrix = draw_weight(300, 1000, 40, 1);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Family& rows = rows_family();
  for (const std::int64_t tokens : {1, 4, 32}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(rows, problem, statistics);
    ASSERT_GT(space.configs.size(), 100U);
    EXPECT_TRUE(std::is_sorted(space.configs.begin(), space.configs.end(),
                               [](const auto& a, const auto& b) { return a.predicted_us < b.predicted_us; }));
    for (std::size_t i = 0; i < space.configs.size(); i += 97)
      expect_whole_candidate(rows, space.configs[i], problem, matrix, statistics);
  }
}

// What PaiSparse searches over, as docs/internals/kernels/rows.md lists it: each step of the chain by the config named
// there.
TEST(RowsFamilyTest, ReachesEveryStepOfTheReductionChain) {
  const Family& rows = rows_family();
  const CsrMatrix matrix = draw_weight(64, 2000, 400, 6);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Problem problem = problem_of(matrix, 1);
  const auto kernel_with = [&](const std::map<std::string, std::int64_t>& changes) {
    Config config = plain_config();
    for (const auto& [parameter, value] : changes) config.values.at(parameter) = value;
    EXPECT_TRUE(rows.check(config, problem, statistics).ok()) << config.text();
    const auto candidate = rows.generate(config, problem, *rows.pack(config, problem, matrix));
    EXPECT_TRUE(candidate.ok()) << config.text();
    return candidate.ok() ? *candidate : Candidate();
  };
  const auto has = [](const Candidate& candidate, const std::string& line) {
    return candidate.kernels.at(0).source.find(line + ";") != std::string::npos;
  };
  const Candidate a_thread = kernel_with({{"shuffle_lanes", 1}, {"unroll", 4}, {"rows_per_group", 2}});
  EXPECT_TRUE(has(a_thread, "constexpr int kShuffleLanes = 1"));
  EXPECT_TRUE(has(a_thread, "using Sums = RegisterSums<2, kTokens>"));
  const Candidate a_warp = kernel_with({{"shuffle_lanes", 32}});
  EXPECT_TRUE(has(a_warp, "constexpr int kShuffleLanes = 32"));
  EXPECT_TRUE(has(a_warp, "constexpr int kSharedParts = 1"));
  const Candidate a_block = kernel_with({{"shuffle_lanes", 32}, {"shared_parts", 32}, {"threads_per_block", 1024}});
  EXPECT_TRUE(has(a_block, "constexpr int kSharedParts = 32"));
  EXPECT_EQ(a_block.plan.steps.at(0).block[0], 1024);
  const Candidate atomics = kernel_with({{"split_length", 128}, {"partial_sums", 1}});
  EXPECT_TRUE(has(atomics, "using Partials = AtomicPartials"));
  const Candidate two_pass = kernel_with({{"split_length", 128}, {"partial_sums", 2}});
  EXPECT_TRUE(has(two_pass, "using Partials = StoredPartials"));
  EXPECT_EQ(two_pass.kernels.size(), 2U);
  const Candidate wide = kernel_with({{"index_bits", 32}});
  EXPECT_TRUE(has(wide, "using Index = u32"));
  const Candidate persistent = kernel_with({{"blocks_per_sm", 2}});
  EXPECT_EQ(persistent.plan.steps.at(0).grid[0].text().find("min("), 0U);
}

TEST(RowsFamilyTest, ARuleSaysWhatItForbids) {
  const Family& rows = rows_family();
  const CsrMatrix matrix = draw_weight(4, 100, 5, 2);
  const SparsityStatistics statistics = compute_statistics(matrix);
  Problem problem = problem_of(matrix, 1);
  EXPECT_TRUE(rows.check(plain_config(), problem, statistics).ok());
  problem.spec.cols = 65537;
  EXPECT_NE(rows.check(plain_config(), problem, statistics).message().find("65,536"), std::string::npos);
  problem.spec.cols = 100;
  const auto refused = [&](const char* parameter, std::int64_t value) {
    Config config = plain_config();
    config.values[parameter] = value;
    return !rows.check(config, problem, statistics).ok();
  };
  EXPECT_TRUE(refused("vector_width", 8));    // beyond the alignment
  EXPECT_TRUE(refused("vector_width", 3));    // no such value
  EXPECT_TRUE(refused("split_length", 128));  // without partial sums
  EXPECT_TRUE(refused("shared_parts", 32));   // a group of 256 threads in a block of 128
  EXPECT_FALSE(refused("threads_per_block", 64));
  Config incomplete = plain_config();
  incomplete.values.erase("unroll");
  EXPECT_NE(rows.check(incomplete, problem, statistics).message().find("unroll"), std::string::npos);
}

// Kernels are shared between weights: their text must not depend on the pattern or the shape.
TEST(RowsFamilyTest, KernelTextDoesNotDependOnTheWeight) {
  const Family& rows = rows_family();
  Config config = plain_config();
  config.values["split_length"] = 128;
  config.values["partial_sums"] = 2;
  const CsrMatrix small = draw_weight(10, 500, 100, 3);
  const CsrMatrix large = draw_weight(400, 1000, 20, 4);
  const auto a = rows.generate(config, problem_of(small, 1), *rows.pack(config, problem_of(small, 1), small));
  const auto b = rows.generate(config, problem_of(large, 64), *rows.pack(config, problem_of(large, 64), large));
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_FALSE(a->kernels.empty() || b->kernels.empty());
  EXPECT_EQ(a->kernels[0].name, b->kernels[0].name);
  EXPECT_EQ(a->kernels[0].source, b->kernels[0].source);
}

// The name is the key of every cache: two configs with different code never share one.
TEST(RowsFamilyTest, EqualNamesMeanEqualText) {
  const Family& rows = rows_family();
  const CsrMatrix matrix = draw_weight(64, 512, 40, 5);
  const SparsityStatistics statistics = compute_statistics(matrix);
  KernelTexts texts;
  for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
    for (const char* epilogue : {"none", "bias+relu", "beta", "residual"}) {
      Problem problem = problem_of(matrix, 16);
      problem.spec.layout = layout;
      problem.spec.epilogue = *Epilogue::parse(epilogue);
      texts.add(rows, problem, matrix, statistics, 41);
    }
  }
  texts.expect_distinct();
}

}  // namespace
}  // namespace sparsmith::test
