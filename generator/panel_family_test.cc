#include "generator/panel_family.h"

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
  return Config{"panel",
                {{"products", 0},
                 {"segment_lanes", 1},
                 {"segment_length", 128},
                 {"row_parts", 2},
                 {"column_parts", 1},
                 {"threads_per_block", 512},
                 {"depth", 2},
                 {"input", 0}}};
}

TEST(PanelFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const PanelFamily family;
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

TEST(PanelFamilyTest, ARuleSaysWhatItForbids) {
  const PanelFamily family;
  const CsrMatrix matrix = draw_matrix(64, 512, 0.1, 2);
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
}

// Kernels are shared between weights: their text must not depend on the pattern or the shape; and equal names, which
// key every cache, mean equal text.
TEST(PanelFamilyTest, KernelTextDependsOnItsNameAlone) {
  const PanelFamily family;
  std::map<std::string, std::string> texts;
  for (const auto& [rows, cols] : {std::pair{64, 512}, std::pair{300, 30000}}) {
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
