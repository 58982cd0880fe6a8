// What the tests of every family ask of its configs, plans and kernels.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "generator/search_space.h"
#include "matrix/synthesis.h"
#include "tests/support/drawn_matrix.h"

namespace sparsmith::test {

inline Problem problem_of(std::int64_t rows, std::int64_t cols, std::int64_t tokens,
                          DataType type = DataType::kFloat16) {
  return {{.rows = rows, .cols = cols, .type = type}, tokens, typical_device(90)};
}

inline Problem problem_of(const CsrMatrix& matrix, std::int64_t tokens) {
  return problem_of(matrix.rows, matrix.cols, tokens);
}

// Statistics of a large weight of uniform sparsity.
inline SparsityStatistics uniform(std::int64_t rows, std::int64_t cols, double density) {
  SparsityStatistics statistics;
  statistics.rows = rows;
  statistics.cols = cols;
  statistics.row_mean = density * static_cast<double>(cols);
  statistics.nnz = static_cast<std::int64_t>(statistics.row_mean * static_cast<double>(rows));
  statistics.sparsity = 1 - density;
  return statistics;
}

inline Problem sddmm_of(const CsrMatrix& matrix, std::int64_t tokens) {
  Problem problem = problem_of(matrix, tokens);
  problem.spec.kind = OperatorKind::kSddmm;
  problem.spec.set_weight(matrix.rows, matrix.cols, matrix.nnz());
  return problem;
}

// `pattern`: as parse_synthesis_pattern() has it.
inline CsrMatrix draw_pattern(const std::string& pattern, double sparsity, std::int64_t rows, std::int64_t cols) {
  SynthesisSpec spec;
  spec.rows = rows;
  spec.cols = cols;
  spec.sparsity = sparsity;
  spec.pattern = parse_synthesis_pattern(pattern).value();
  spec.seed = 5;
  return synthesize(spec).value();
}

// Some of the blocks of so many rows and columns are whole, the others empty.
inline CsrMatrix draw_blocks(int block, double sparsity, std::int64_t rows, std::int64_t cols) {
  return draw_pattern("block:" + std::to_string(block), sparsity, rows, cols);
}

// A config that the search found is legal, packs as it says, and its plan launches kernels that are there, with arrays
// that are there, in the shared memory of a block.
inline void expect_whole_candidate(const Family& family, const PredictedConfig& predicted, const Problem& problem,
                                   const CsrMatrix& matrix, const SparsityStatistics& statistics) {
  SCOPED_TRACE(predicted.config.text());
  EXPECT_TRUE(family.check(predicted.config, problem, statistics).ok());
  EXPECT_GT(predicted.predicted_us, 0);
  const auto packed = family.pack(predicted.config, problem, matrix);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(packed->packing, family.packing(predicted.config, problem));
  const auto candidate = family.generate(predicted.config, problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  std::set<std::string> made;
  for (const KernelSource& kernel : candidate->kernels) made.insert(kernel.name);
  ASSERT_FALSE(candidate->plan.steps.empty());
  for (const PlanStep& step : candidate->plan.steps) {
    if (step.kind != PlanStep::Kind::kLaunch) continue;
    EXPECT_TRUE(made.contains(step.kernel)) << step.kernel;
    const auto shared = step.shared_bytes.evaluate({.n = problem.tokens, .facts = &packed->facts});
    ASSERT_TRUE(shared.ok()) << shared.status().to_string();
    EXPECT_LE(*shared, problem.device.shared_bytes_per_block);
    for (const PlanArgument& argument : step.arguments) {
      if (argument.kind == PlanArgument::Kind::kPacked) {
        EXPECT_NE(packed->array(argument.name), nullptr) << argument.name;
      }
    }
  }
}

// The same of every 29th config that a family finds for several tokens, whether or not K fits in shared memory.
inline void expect_whole_candidates(const Family& family) {
  Random random(1);
  for (const std::int64_t cols : {1000, 40000}) {
    const CsrMatrix matrix = draw_matrix(random, 300, cols, 0.02);
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const std::int64_t tokens : {2, 8, 33, 512}) {
      const Problem problem = problem_of(matrix, tokens);
      const SearchSpace space = search_space(family, problem, statistics);
      ASSERT_GT(space.configs.size(), 8U) << cols << " columns, N = " << tokens;
      for (std::size_t i = 0; i < space.configs.size(); i += 29)
        expect_whole_candidate(family, space.configs[i], problem, matrix, statistics);
    }
  }
}

// Weights share kernels, and a name is the key of every cache: equal names mean equal text, and the other way round.
class KernelTexts {
 public:
  // The kernels of every `step`th config that a search finds.
  void add(const Family& family, const Problem& problem, const CsrMatrix& matrix, const SparsityStatistics& statistics,
           std::size_t step) {
    const SearchSpace space = search_space(family, problem, statistics);
    for (std::size_t i = 0; i < space.configs.size(); i += step) {
      const Config& config = space.configs[i].config;
      const auto packed = family.pack(config, problem, matrix);
      ASSERT_TRUE(packed.ok()) << config.text() << packed.status().to_string();
      const auto candidate = family.generate(config, problem, *packed);
      ASSERT_TRUE(candidate.ok()) << config.text() << candidate.status().to_string();
      for (const KernelSource& kernel : candidate->kernels) {
        const auto [known, added] = texts_.emplace(kernel.name, kernel.source);
        EXPECT_EQ(known->second, kernel.source) << kernel.name;
      }
    }
  }

  void expect_distinct() const {
    EXPECT_GT(texts_.size(), 1U);
    std::set<std::string> distinct;
    for (const auto& [name, text] : texts_) distinct.insert(text);
    EXPECT_EQ(distinct.size(), texts_.size());
  }

 private:
  std::map<std::string, std::string> texts_;  // by name
};

// The kernels of a family over drawn weights of these shapes (rows, columns), both layouts and several epilogues.
inline void expect_text_depends_on_name_alone(const Family& family,
                                              std::initializer_list<std::pair<std::int64_t, std::int64_t>> shapes,
                                              double density = 0.03, std::int64_t tokens = 16) {
  KernelTexts texts;
  Random random(5);
  for (const auto& [rows, cols] : shapes) {
    const CsrMatrix matrix = draw_matrix(random, rows, cols, density);
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      for (const char* epilogue : {"none", "bias+relu", "beta", "residual", "bias+silu+gated"}) {
        Problem problem = problem_of(matrix, tokens);
        problem.spec.layout = layout;
        problem.spec.epilogue = *Epilogue::parse(epilogue);
        texts.add(family, problem, matrix, statistics, 37);
      }
      Problem chained = problem_of(matrix, tokens);
      chained.spec.layout = layout;
      if (chained.spec.type == DataType::kFloat16) chained.spec.accumulation = Accumulation::kFp16Chains;
      texts.add(family, chained, matrix, statistics, 37);
    }
  }
  texts.expect_distinct();
}

}  // namespace sparsmith::test
