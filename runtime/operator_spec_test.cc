#include "runtime/operator_spec.h"

#include <gtest/gtest.h>

#include "sparsmith/named_values.h"

namespace sparsmith {
namespace {

TEST(Epilogue, EveryCombinationSurvivesItsName) {
  for (int activation = 0; activation < 5; ++activation) {
    for (int flags = 0; flags < 16; ++flags) {
      const Epilogue epilogue{static_cast<Activation>(activation), (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0,
                              (flags & 8) != 0};
      const auto back = Epilogue::parse(epilogue.name());
      ASSERT_TRUE(back.ok()) << epilogue.name();
      EXPECT_EQ(*back, epilogue);
    }
  }
}

TEST(Epilogue, TakesPartsInAnyOrderAndCommas) {
  EXPECT_EQ(Epilogue::parse("residual,gelu,bias")->name(), "bias+gelu+residual");
  EXPECT_EQ(Epilogue::parse("none")->name(), "none");
}

TEST(Epilogue, RefusesOtherText) {
  for (const char* text :
       {"", "+", "bias+", "bias bias", "bias+bias", "relu+relu", "relu+gelu", "tanh", "bias+none", "Relu"}) {
    const auto epilogue = Epilogue::parse(text);
    ASSERT_FALSE(epilogue.ok()) << text;
    EXPECT_EQ(epilogue.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(OperatorSpec, NamesEverythingButTheShape) {
  OperatorSpec spec{.rows = 8, .cols = 4, .type = DataType::kFloat16};
  EXPECT_EQ(spec.name(), "spmm_fp16_token_major_none");
  spec.layout = Layout::kFeatureMajor;
  spec.epilogue = *Epilogue::parse("bias+relu");
  spec.rows = 9;
  EXPECT_EQ(spec.name(), "spmm_fp16_feature_major_bias+relu");
  const auto back = OperatorSpec::parse(spec.name());
  ASSERT_TRUE(back.ok());
  spec.rows = spec.cols = 0;
  EXPECT_EQ(*back, spec);
}

TEST(OperatorSpec, OfTheTransposedWeightHasAnotherNameAndShape) {
  OperatorSpec spec{.rows = 8, .cols = 4, .type = DataType::kFloat16};
  EXPECT_EQ(spec.weight_rows(), 8);
  EXPECT_EQ(spec.weight_cols(), 4);
  spec.kind = OperatorKind::kSpmmTransposed;
  EXPECT_EQ(spec.weight_rows(), 4);
  EXPECT_EQ(spec.weight_cols(), 8);
  EXPECT_EQ(spec.operands()[1].length.of(3), 8) << "y has the features of the weight's columns";
  EXPECT_EQ(spec.name(), "spmm_transposed_fp16_token_major_none");
  const auto back = OperatorSpec::parse(spec.name());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->kind, OperatorKind::kSpmmTransposed);
}

TEST(OperatorSpec, OfSddmmTakesTheGradientOfYAndWritesValuesInTheOrderOfCsr) {
  OperatorSpec spec{.type = DataType::kBFloat16, .epilogue = {.beta = true}, .kind = OperatorKind::kSddmm};
  spec.set_weight(8, 4, 17);
  EXPECT_EQ(spec.weight_rows(), 8);
  EXPECT_EQ(spec.weight_cols(), 4);
  EXPECT_EQ(spec.name(), "sddmm_bf16_token_major_beta");
  const std::vector<Operand> operands = spec.operands();
  ASSERT_EQ(operands.size(), 3U);
  EXPECT_EQ(operands[0].name, "x");
  EXPECT_EQ(operands[0].length.of(3), 4);
  EXPECT_EQ(operands[1].name, "dy");
  EXPECT_EQ(operands[1].access, Access::kIn);
  EXPECT_EQ(operands[1].lines.of(3), 3);
  EXPECT_EQ(operands[1].length.of(3), 8);
  EXPECT_EQ(operands[2].name, "values");
  EXPECT_EQ(operands[2].access, Access::kInOut);
  EXPECT_FALSE(operands[2].has_stride);
  EXPECT_EQ(operands[2].elements(3, 0), 17);

  spec.kind = OperatorKind::kSpmmTransposed;
  spec.set_weight(8, 4, 17);
  EXPECT_EQ(spec.rows, 4);
  EXPECT_EQ(spec.nnz, 0) << "other operators do not depend on it";
  EXPECT_EQ(OperatorSpec::parse("sddmm_fp32_token_major_bias+beta").status().message(),
            "epilogue bias+beta: sddmm has none but beta");
  EXPECT_EQ(OperatorSpec::parse("sddmm_fp16_chains_token_major_none").status().code(), StatusCode::kInvalidArgument);
}

TEST(OperatorSpec, ListsItsOperands) {
  OperatorSpec spec{.rows = 6, .cols = 10, .type = DataType::kFloat16};
  spec.epilogue = *Epilogue::parse("bias+beta");
  std::vector<Operand> operands = spec.operands();
  ASSERT_EQ(operands.size(), 4U);
  const Operand x{.name = "x", .type = DataType::kFloat16, .lines = {.is_tokens = true}, .length = {.fixed = 10}};
  EXPECT_EQ(operands[0], x);
  EXPECT_EQ(operands[1].name, "y");
  EXPECT_EQ(operands[1].access, Access::kInOut);
  EXPECT_EQ(operands[1].length.of(3), 6);
  EXPECT_EQ(operands[1].elements(3, 8), 24);
  EXPECT_EQ(operands[2].name, "bias");
  EXPECT_FALSE(operands[2].has_stride);
  EXPECT_TRUE(operands[2].present);
  EXPECT_EQ(operands[2].elements(3, 0), 6);
  EXPECT_EQ(operands[3].name, "residual");
  EXPECT_FALSE(operands[3].present);

  spec.layout = Layout::kFeatureMajor;
  spec.epilogue = {};
  operands = spec.operands();
  EXPECT_EQ(operands[0].lines.of(3), 10);
  EXPECT_EQ(operands[0].length.of(3), 3);
  EXPECT_EQ(operands[1].access, Access::kOut);
  EXPECT_FALSE(operands[2].present);
}

TEST(OperatorSpec, AGatedOneHasHalfOfTheRowsAsOutputs) {
  OperatorSpec spec{.rows = 6, .cols = 10, .epilogue = *Epilogue::parse("gated,silu,bias")};
  EXPECT_EQ(spec.name(), "spmm_fp32_token_major_bias+silu+gated");
  ASSERT_TRUE(spec.check().ok());
  EXPECT_EQ(spec.operands()[1].length.of(2), 3);
  EXPECT_EQ(spec.operands()[2].elements(2, 0), 6) << "each row has a bias";
  spec.rows = 7;
  EXPECT_EQ(spec.check().message(), "epilogue bias+silu+gated: 7 rows are no two halves");
  spec.rows = 6;
  for (bool Epilogue::* const part : {&Epilogue::beta, &Epilogue::residual}) {
    OperatorSpec other = spec;
    other.epilogue.*part = true;
    EXPECT_EQ(other.check().code(), StatusCode::kInvalidArgument);
  }
  spec.kind = OperatorKind::kSpmmTransposed;
  EXPECT_EQ(spec.check().code(), StatusCode::kInvalidArgument);
}

TEST(OperatorSpec, ChainsAreForFp16) {
  OperatorSpec spec{.type = DataType::kFloat16, .accumulation = Accumulation::kFp16Chains};
  EXPECT_TRUE(spec.check().ok());
  EXPECT_EQ(spec.name(), "spmm_fp16_chains_token_major_none");
  const auto back = OperatorSpec::parse(spec.name());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, spec);
  spec.type = DataType::kBFloat16;
  EXPECT_EQ(spec.check().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(spec.check().message(), "accumulation fp16_chains is for fp16 operators, not for bf16 ones");
}

TEST(OperatorSpec, RefusesOtherNames) {
  for (const char* name :
       {"", "spmm", "spmm_transposed_token_major_none", "spmm_fp16_token_major", "spmm_fp64_token_major_none",
        "spmm_fp16_token_major_no", "spmm_fp32_chains_token_major_none"})
    EXPECT_EQ(OperatorSpec::parse(name).status().code(), StatusCode::kInvalidArgument) << name;
}

TEST(NamedValues, AFewUnderNames) {
  NamedValues<int> values = {{"a", 1}, {"b", 2}};
  EXPECT_TRUE(values.set("a", 3));
  EXPECT_EQ(values.value_or("a", 0), 3);
  EXPECT_EQ(values.value_or("c", 7), 7);
  EXPECT_EQ(values.find("c"), nullptr);
  for (const char* name : {"c", "d", "e", "f", "g", "h"}) EXPECT_TRUE(values.set(name, 4));
  EXPECT_FALSE(values.set("i", 5)) << "there are kMost others";
  EXPECT_EQ(values.find("i"), nullptr);
  EXPECT_TRUE(values.set("h", 6));
  EXPECT_EQ(values.end() - values.begin(), 8);
}

}  // namespace
}  // namespace sparsmith
