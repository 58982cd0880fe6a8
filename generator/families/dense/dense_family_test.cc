#include "generator/families/dense/dense_family.h"

#include <gtest/gtest.h>

#include "formats/packed_format.h"
#include "generator/search_space.h"
#include "matrix/synthesis.h"
#include "runtime/tuned_file.h"

namespace sparsmith {
namespace {

class DenseFamilyTest : public testing::Test {
 protected:
  Candidate made(const char* operator_name, std::int64_t tokens, const Config& config) {
    problem_.spec = OperatorSpec::parse(operator_name).value();
    problem_.spec.set_weight(matrix_.rows, matrix_.cols, matrix_.nnz());
    problem_.tokens = tokens;
    problem_.device = typical_device(90);
    EXPECT_TRUE(family_.check(config, problem_, {}).ok());
    const PackedWeight packed = family_.pack(config, problem_, matrix_).value();
    EXPECT_EQ(packed.packing, kDensePacking);
    return family_.generate(config, problem_, packed).value();
  }

  CsrMatrix matrix_ =
      synthesize({.rows = 24, .cols = 40, .sparsity = 0.5, .data_type = DataType::kFloat16, .seed = 1}).value();
  Problem problem_;
  const Family& family_ = *family("dense");
};

TEST_F(DenseFamilyTest, TheLibraryComputesTheWholeOperatorWhereItCan) {
  for (const char* name : {"spmm_fp16_token_major_bias+relu", "spmm_transposed_fp16_feature_major_none"}) {
    const Candidate candidate = made(name, 8, {"dense", {{"proposal", 0}}});
    EXPECT_EQ(candidate.plan.steps, std::vector{matmul_step(std::string(kDenseArray), std::nullopt)}) << name;
    EXPECT_TRUE(candidate.kernels.empty()) << name;
  }
  const Candidate chain = made("spmm_fp16_token_major_gelu", 8, {"dense", {{"proposal", 0}}});
  ASSERT_EQ(chain.plan.steps.size(), 2U);
  EXPECT_EQ(chain.plan.steps[1].kernel, chain.kernels.at(0).name);
}

// The first is the library's own choice at any N; others are those of the N that they were timed at.
TEST_F(DenseFamilyTest, AProposalIsThatOfTheBucket) {
  EXPECT_EQ(made("spmm_fp16_token_major_none", 64, {"dense", {{"proposal", 0}}}).plan.steps[0].proposed_for, 0);
  for (const char* name : {"spmm_fp16_token_major_none", "spmm_fp16_token_major_gelu"}) {
    const PlanStep step = made(name, 64, {"dense", {{"proposal", 3}}}).plan.steps[0];
    EXPECT_EQ(step.proposal, 3);
    EXPECT_EQ(step.proposed_for, 64);
  }
}

// Files and caches of earlier versions say no more.
TEST_F(DenseFamilyTest, WithoutAProposalItIsTheFirst) {
  EXPECT_EQ(made("spmm_fp16_token_major_none", 64, {"dense", {}}).plan,
            made("spmm_fp16_token_major_none", 64, {"dense", {{"proposal", 0}}}).plan);
}

TEST_F(DenseFamilyTest, IsTheBaselineAndNoPartOfTheSpace) {
  made("spmm_fp16_token_major_gelu", 64, {"dense", {}});
  const SearchSpace space = search_space(problem_, compute_statistics(matrix_));
  for (const PredictedConfig& predicted : space.configs)
    EXPECT_FALSE(is_baseline(predicted.config)) << predicted.config.text();
  const SearchSpace baseline = baseline_space(problem_);
  EXPECT_EQ(baseline.configs.size(), 8U);
  for (const PredictedConfig& predicted : baseline.configs) EXPECT_TRUE(is_baseline(predicted.config));
  const double with_epilogue = baseline_us(problem_);
  made("spmm_fp16_token_major_none", 64, {"dense", {}});
  EXPECT_GT(with_epilogue, baseline_us(problem_));
}

TEST_F(DenseFamilyTest, TheGradientIsGatheredFromThatOfAllPlaces) {
  problem_.spec = OperatorSpec::parse("sddmm_bf16_feature_major_beta").value();
  problem_.spec.set_weight(matrix_.rows, matrix_.cols, matrix_.nnz());
  problem_.tokens = 64;
  problem_.device = typical_device(90);
  const Config config = {"dense", {{"proposal", 2}}};
  ASSERT_TRUE(family_.check(config, problem_, {}).ok());
  const PackedWeight packed = family_.pack(config, problem_, matrix_).value();
  EXPECT_EQ(packed.packing, "csr_u16_a1_natural");
  const Candidate candidate = family_.generate(config, problem_, packed).value();
  ASSERT_EQ(candidate.plan.steps.size(), 2U);
  PlanStep product = gradient_step(0);
  product.proposal = 2;
  product.proposed_for = 64;
  EXPECT_EQ(candidate.plan.steps[0], product);
  EXPECT_EQ(candidate.plan.workspace_bytes, IntegerExpression(24 * 40 * 4));
  EXPECT_EQ(candidate.plan.steps[1].kernel, "dense_gather_bf16_u16_beta");
  EXPECT_EQ(candidate.plan.steps[1].grid[0], IntegerExpression(3)) << "eight rows a block";
  problem_.spec.epilogue.beta = false;
  EXPECT_EQ(family_.generate(config, problem_, packed).value().plan.workspace_bytes, IntegerExpression(24 * 40 * 2));
  const double plain = predicted_dense_us(problem_);
  EXPECT_GT(baseline_us(problem_), plain);
  problem_.tokens = 32768;
  EXPECT_GT(predicted_dense_us(problem_), plain);
  problem_.spec.cols = 65537;
  EXPECT_EQ(family_.packing(config, problem_), "csr_u32_a1_natural");
}

}  // namespace
}  // namespace sparsmith
