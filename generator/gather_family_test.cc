#include "generator/gather_family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "generator/search_space.h"

namespace sparsmith {
namespace {

CsrMatrix draw_matrix(std::int64_t rows, std::int64_t cols, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::geometric_distribution<std::int64_t> gap(density);
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = gap(random); column < cols; column += 1 + gap(random)) {
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(1.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

Problem problem_of(const CsrMatrix& matrix, std::int64_t tokens) {
  return {{.rows = matrix.rows, .cols = matrix.cols, .type = DataType::kFloat16}, tokens, typical_device(90)};
}

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

TEST(GatherFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const GatherFamily family;
  for (const std::int64_t cols : {1000, 40000}) {
    const CsrMatrix matrix = draw_matrix(300, cols, 0.02, 1);
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const std::int64_t tokens : {2, 8, 33, 512}) {
      const Problem problem = problem_of(matrix, tokens);
      const SearchSpace space = search_space(family, problem, statistics);
      ASSERT_GT(space.entries.size(), 8U) << cols << " columns, N = " << tokens;
      for (std::size_t i = 0; i < space.entries.size(); i += 29) {
        const Config& config = space.entries[i].config;
        EXPECT_TRUE(family.check(config, problem, statistics).ok()) << config.text();
        EXPECT_GT(space.entries[i].predicted_us, 0);
        const auto packed = family.pack(config, problem, matrix);
        ASSERT_TRUE(packed.ok()) << config.text() << packed.status().to_string();
        EXPECT_EQ(packed->packing, family.packing(config, problem));
        const auto candidate = family.generate(config, problem, *packed);
        ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
        std::set<std::string> made;
        for (const KernelSource& kernel : candidate->kernels) made.insert(kernel.name);
        for (const PlanStep& step : candidate->plan.steps) {
          EXPECT_TRUE(made.contains(step.kernel)) << step.kernel;
          EXPECT_LE(step.shared_bytes.evaluate({}).value(), problem.device.shared_bytes_per_block);
          for (const PlanArgument& argument : step.arguments) {
            if (argument.kind == PlanArgument::Kind::kPacked) {
              EXPECT_NE(packed->array(argument.name), nullptr) << argument.name;
            }
          }
        }
      }
    }
  }
}

TEST(GatherFamilyTest, ARuleSaysWhatItForbids) {
  const GatherFamily family;
  const CsrMatrix matrix = draw_matrix(64, 512, 0.1, 2);
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
  const GatherFamily family;
  const CsrMatrix matrix = draw_matrix(80, 70000, 0.001, 3);
  Problem problem = problem_of(matrix, 32);
  for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
    problem.spec.layout = layout;
    const auto packed = family.pack(plain_config(), problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto candidate = family.generate(plain_config(), problem, *packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    const bool turned = layout == Layout::kTokenMajor;
    EXPECT_EQ(candidate->plan.steps.size(), turned ? 2U : 1U);
    EXPECT_EQ(candidate->plan.workspace_bytes.evaluate({.n = 32}).value(), turned ? 70000 * 32 * 2 : 0);
  }
}

// What a block cannot keep in shared memory: panels lose to gathers where filling one costs more than the weight.
TEST(GatherFamilyTest, TheSparserTheWeightTheBetterItRanks) {
  const Family& gather = *family("gather");
  const Family& panel = *family("panel");
  const auto ratio = [&](double density) {
    const CsrMatrix matrix = draw_matrix(2048, 8192, density, 4);
    const SparsityStatistics statistics = compute_statistics(matrix);
    Problem problem = problem_of(matrix, 32);
    problem.spec.layout = Layout::kFeatureMajor;
    return search_space(gather, problem, statistics).entries.at(0).predicted_us /
           search_space(panel, problem, statistics).entries.at(0).predicted_us;
  };
  EXPECT_LT(ratio(0.001), 1.0);
  EXPECT_LT(ratio(0.001), ratio(0.02));
}

// Kernels are shared between weights: their text must not depend on the pattern or the shape; and equal names, which
// key every cache, mean equal text.
TEST(GatherFamilyTest, KernelTextDependsOnItsNameAlone) {
  const GatherFamily family;
  std::map<std::string, std::string> texts;
  for (const auto& [rows, cols] : {std::pair{64, 512}, std::pair{300, 70000}}) {
    const CsrMatrix matrix = draw_matrix(rows, cols, 0.03, 5);
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      for (const char* epilogue : {"none", "bias+relu", "beta", "residual"}) {
        Problem problem = problem_of(matrix, 16);
        problem.spec.layout = layout;
        problem.spec.epilogue = *Epilogue::parse(epilogue);
        const SearchSpace space = search_space(family, problem, statistics);
        for (std::size_t i = 0; i < space.entries.size(); i += 37) {
          const Config& config = space.entries[i].config;
          const auto candidate = family.generate(config, problem, *family.pack(config, problem, matrix));
          ASSERT_TRUE(candidate.ok());
          for (const KernelSource& kernel : candidate->kernels) {
            const auto [known, added] = texts.emplace(kernel.name, kernel.source);
            EXPECT_EQ(known->second, kernel.source) << kernel.name;
          }
        }
      }
    }
  }
  std::set<std::string> distinct;
  for (const auto& [name, text] : texts) distinct.insert(text);
  EXPECT_EQ(distinct.size(), texts.size());
}

}  // namespace
}  // namespace sparsmith
