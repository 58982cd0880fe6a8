#include "tuner/verify/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <set>

#include "tests/support/sample_weight.h"

namespace sparsmith {
namespace {

constexpr std::uint32_t kSeed = 20240517;

CsrMatrix random_matrix(std::int64_t rows, std::int64_t cols, double density, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<float> normal(0, 1);
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double row_density = row % 5 == 3 ? 0 : density * 2 * uniform(random);  // some rows are empty
    for (std::int64_t column = 0; column < cols; ++column) {
      if (uniform(random) >= row_density) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(normal(random) + 3);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

// The operator as its definition says, in Eigen and long double.
Eigen::MatrixXd exact_output(const ReferenceProblem& problem) {
  const OperatorSpec& spec = problem.spec();
  Eigen::MatrixXd w = Eigen::MatrixXd::Zero(spec.rows, spec.cols);
  for (std::int64_t row = 0; row < spec.rows; ++row)
    for (std::int64_t i = problem.matrix().row_offsets[row]; i < problem.matrix().row_offsets[row + 1]; ++i)
      w(row, problem.matrix().column_indices[i]) = problem.values()[i];
  Eigen::MatrixXd x(spec.cols, problem.tokens());
  for (std::int64_t column = 0; column < spec.cols; ++column)
    for (std::int64_t token = 0; token < problem.tokens(); ++token)
      x(column, token) = problem.x().get(problem.x_index(column, token));
  Eigen::MatrixXd y = w * x;
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    for (std::int64_t token = 0; token < problem.tokens(); ++token) {
      long double value = y(row, token) * static_cast<long double>(problem.alpha());
      if (spec.epilogue.bias) value += problem.operand("bias").contents.get(row);
      switch (spec.epilogue.activation) {
        case Activation::kNone: break;
        case Activation::kRelu: value = std::max(value, 0.0L); break;
        case Activation::kGelu: value = value * (1 + std::erf(value / std::sqrt(2.0L))) / 2; break;
        case Activation::kSilu: value = value / (1 + std::exp(-value)); break;
        case Activation::kGeluTanh:
          value = value / 2 *
                  (1 + std::tanh(std::sqrt(2 / std::numbers::pi_v<long double>) *
                                 (value + 0.044715L * value * value * value)));
          break;
      }
      if (problem.beta() != 0) value += problem.beta() * problem.initial_output().get(problem.output_index(row, token));
      if (spec.epilogue.residual) value += problem.operand("residual").contents.get(problem.output_index(row, token));
      y(row, token) = static_cast<double>(value);
    }
  }
  return y;
}

// A plain fp32 kernel. `mutant` names the mistake it makes.
ElementBuffer fp32_output(const ReferenceProblem& problem, const ElementBuffer& x, const std::string& mutant = "") {
  const OperatorSpec& spec = problem.spec();
  ElementBuffer y = problem.initial_output();
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    for (std::int64_t token = 0; token < problem.tokens(); ++token) {
      const bool last = row == spec.rows - 1 && token == problem.tokens() - 1;
      if (last && mutant == "tail") continue;
      float sum = 0;
      const std::int64_t begin = problem.matrix().row_offsets[row];
      const std::int64_t end = problem.matrix().row_offsets[row + 1];
      for (std::int64_t i = begin; i < end; ++i) {
        if (last && mutant == "dropped product" && i == begin) continue;
        std::int64_t column = problem.matrix().column_indices[i];
        if (last && mutant == "wrong column" && i == begin) column = (column + 1) % spec.cols;
        sum += problem.values()[i] * x.get(problem.x_index(column, token));
      }
      if (mutant == "padding") sum += 0.0F * x.get(problem.x_index(0, token));
      if (mutant == "dropped infinity" && !std::isfinite(sum)) sum = 0;
      float value = (mutant == "alpha" ? 1.0F : problem.alpha()) * sum;
      if (spec.epilogue.bias) value += problem.operand("bias").contents.get(mutant == "bias" ? 0 : row);
      if (spec.epilogue.activation == Activation::kRelu)
        value = mutant == "relu of NaN" ? (value > 0 ? value : 0) : (value < 0 ? 0 : value);
      if (spec.epilogue.activation == Activation::kGelu) value = 0.5F * value * (1 + std::erf(value * 0.70710678F));
      if (spec.epilogue.activation == Activation::kSilu) value = value / (1 + std::exp(-value));
      if (spec.epilogue.activation == Activation::kGeluTanh)
        value = 0.5F * value * (1 + std::tanh(0.79788456F * (value + 0.044715F * value * value * value)));
      const std::int64_t at = problem.output_index(row, token);
      if (problem.beta() != 0 || (mutant == "beta" && spec.epilogue.beta))
        value += problem.beta() * problem.initial_output().get(at);
      if (spec.epilogue.residual) value += problem.operand("residual").contents.get(at);
      y.set(at, value);
      if (mutant == "padding of y" && last) y.set(y.size() - 1, value);
    }
  }
  return y;
}

struct Case {
  DataType type;
  Layout layout;
  const char* epilogue;
  InputKind kind;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << short_name(c.type) << " " << layout_name(c.layout) << " " << c.epilogue << " inputs "
       << static_cast<int>(c.kind);
}

class VerificationTest : public testing::TestWithParam<Case> {};

TEST_P(VerificationTest, ReferenceAgreesWithEigenAndFp32Passes) {
  std::mt19937 random(kSeed);
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const CsrMatrix matrix = random_matrix(37, 53, 0.2, random);
  const Case& c = GetParam();
  for (const auto& [tokens, beta] : {std::pair(1, 0.5F), {7, 0.0F}, {16, -1.0F}, {33, 1.0F}}) {
    ReferenceProblem problem(matrix, sample_spec(matrix, c.type, c.layout, c.epilogue),
                             {.tokens = tokens, .seed = 5, .kind = c.kind, .padding = tokens % 3, .beta = beta});
    problem.set_sums(problem.compute_sums());
    const Eigen::MatrixXd exact = exact_output(problem);
    for (std::int64_t row = 0; row < matrix.rows; ++row)
      for (std::int64_t token = 0; token < tokens; ++token)
        if (std::isnan(exact(row, token)))
          ASSERT_TRUE(std::isnan(problem.expected(row, token).value));
        else
          ASSERT_NEAR(problem.expected(row, token).value, exact(row, token),
                      1e-6 * problem.expected(row, token).bound + 1e-300);
    const Verification verification = verify_outputs(problem, fp32_output(problem, problem.x()).bytes());
    EXPECT_TRUE(verification.ok) << verification.reason;
    EXPECT_LE(verification.max_error_over_bound, 1.0);
    EXPECT_LT(verification.norm_error, 0.01);
  }
}

TEST_P(VerificationTest, MutantsAreCaught) {
  const Case& c = GetParam();
  if (c.kind == InputKind::kZeros) GTEST_SKIP() << "where X is zero these mistakes change nothing";
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(38, 53, 0.2, random);  // its last row is not empty
  ReferenceProblem problem(matrix, sample_spec(matrix, c.type, c.layout, c.epilogue),
                           {.tokens = 3, .seed = 9, .kind = c.kind, .padding = 2});
  problem.set_sums(problem.compute_sums());
  std::vector<std::string> mutants = {"alpha", "padding of y"};
  if (!problem.spec().epilogue.beta) mutants.emplace_back("tail");
  // Relu may hide what happens to one output.
  if (problem.spec().epilogue.activation == Activation::kNone)
    mutants.insert(mutants.end(), {"dropped product", "wrong column"});
  if (problem.spec().epilogue.bias) mutants.emplace_back("bias");
  for (const std::string& mutant : mutants) {
    const Verification verification = verify_outputs(problem, fp32_output(problem, problem.x(), mutant).bytes());
    EXPECT_FALSE(verification.ok) << mutant;
    EXPECT_FALSE(verification.reason.empty()) << mutant;
  }
}

TEST_P(VerificationTest, PoisonedColumnsReachTheRowsThatTouchThemAndNoOthers) {
  const Case& c = GetParam();
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(60, 41, 0.1, random);
  ReferenceProblem problem(matrix, sample_spec(matrix, c.type, c.layout, c.epilogue),
                           {.tokens = 9, .seed = 3, .kind = c.kind});
  problem.set_sums(problem.compute_sums());
  const PoisonedInput poisoned = problem.poisoned_input();
  const bool relu = problem.spec().epilogue.activation == Activation::kRelu;
  const bool keeps_signs = relu || problem.spec().epilogue.activation == Activation::kNone;
  EXPECT_THAT(poisoned.effects, testing::IsSupersetOf({PoisonEffect::kNone, PoisonEffect::kInfinity,
                                                       relu          ? PoisonEffect::kFinite
                                                       : keeps_signs ? PoisonEffect::kNegativeInfinity
                                                                     : PoisonEffect::kNan,
                                                       PoisonEffect::kNan}));
  EXPECT_TRUE(std::isinf(poisoned.x.get(problem.x_index(0, 0))));

  const ElementBuffer right = fp32_output(problem, poisoned.x);
  const Verification verification = verify_outputs(problem, right.bytes(), &poisoned);
  EXPECT_TRUE(verification.ok) << verification.reason;
  EXPECT_FALSE(verify_outputs(problem, right.bytes()).ok);
  EXPECT_FALSE(verify_outputs(problem, fp32_output(problem, problem.x()).bytes(), &poisoned).ok);
  for (const char* mutant : {"padding", "dropped infinity", "relu of NaN"}) {
    if (std::string(mutant) == "relu of NaN" && !relu) continue;
    EXPECT_FALSE(verify_outputs(problem, fp32_output(problem, poisoned.x, mutant).bytes(), &poisoned).ok) << mutant;
  }
}

TEST(PoisonedInputTest, OfManyTokensTheLastArePoisoned) {
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(20, 30, 0.3, random);
  ReferenceProblem problem(matrix, sample_spec(matrix, DataType::kFloat32, Layout::kTokenMajor, "none"),
                           {.tokens = PoisonedInput::kMostTokens + 41});
  problem.set_sums(problem.compute_sums());
  const PoisonedInput poisoned = problem.poisoned_input();
  std::set<std::int64_t> tokens;
  for (std::int64_t token = 0; token < problem.tokens(); ++token)
    if (!std::isfinite(poisoned.x.get(problem.x_index(0, token)))) tokens.insert(token);
  EXPECT_EQ(std::ssize(tokens), PoisonedInput::kMostTokens / 4 * 3);
  EXPECT_GE(*tokens.begin(), 41);
  EXPECT_GE(*tokens.rbegin(), problem.tokens() - 2);
  EXPECT_TRUE(verify_outputs(problem, fp32_output(problem, poisoned.x).bytes(), &poisoned).ok);
  EXPECT_FALSE(verify_outputs(problem, fp32_output(problem, problem.x()).bytes(), &poisoned).ok);
}

// A plain kernel of a gated operator, which rounds V to the type. `mutant` names the mistake it makes.
ElementBuffer rounded_gated_output(const ReferenceProblem& problem, const ElementBuffer& x,
                                   const std::string& mutant = "") {
  const OperatorSpec& spec = problem.spec();
  const std::int64_t half = spec.output_rows();
  const auto value_at = [&](std::int64_t row, std::int64_t token) {
    float sum = 0;
    for (std::int64_t i = problem.matrix().row_offsets[row]; i < problem.matrix().row_offsets[row + 1]; ++i) {
      if (mutant == "dropped product" && row == 2 * half - 1 && i == problem.matrix().row_offsets[row]) continue;
      sum += problem.values()[i] * x.get(problem.x_index(problem.matrix().column_indices[i], token));
    }
    if (mutant == "dropped NaN" && !std::isfinite(sum)) sum = 0;
    return rounded(problem.alpha() * sum + problem.operand("bias").contents.get(row), spec.type);
  };
  ElementBuffer y = problem.initial_output();
  for (std::int64_t row = 0; row < half; ++row) {
    for (std::int64_t token = 0; token < problem.tokens(); ++token) {
      const float gate = value_at(mutant == "swapped" ? half + row : row, token);
      const float up = value_at(mutant == "swapped" ? row : half + row, token);
      const float activated =
          mutant == "no activation" ? gate : static_cast<float>(activate(spec.epilogue.activation, gate));
      y.set(problem.output_index(row, token), mutant == "no product" ? activated : activated * up);
    }
  }
  return y;
}

TEST(GatedVerificationTest, PassesRightOutputsAndNoOthers) {
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(38, 53, 0.2, random);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      for (const char* epilogue : {"bias+silu+gated", "bias+gelu_tanh+gated", "bias+gelu+gated", "bias+relu+gated"}) {
        for (const InputKind kind : {InputKind::kVaried, InputKind::kLarge, InputKind::kTiny}) {
          SCOPED_TRACE(testing::Message() << short_name(type) << ' ' << layout_name(layout) << ' ' << epilogue << ' '
                                          << static_cast<int>(kind));
          ReferenceProblem problem(matrix, sample_spec(matrix, type, layout, epilogue),
                                   {.tokens = 7, .seed = 5, .kind = kind, .padding = 3});
          problem.set_sums(problem.compute_sums());
          ASSERT_EQ(problem.output_rows(), 19);
          const Verification right = verify_outputs(problem, rounded_gated_output(problem, problem.x()).bytes());
          EXPECT_TRUE(right.ok) << right.reason;
          const PoisonedInput poisoned = problem.poisoned_input();
          const ElementBuffer with_nan = rounded_gated_output(problem, poisoned.x);
          const Verification nan = verify_outputs(problem, with_nan.bytes(), &poisoned);
          EXPECT_TRUE(nan.ok) << nan.reason;
          if (kind != InputKind::kVaried) continue;
          EXPECT_THAT(poisoned.effects, testing::IsSupersetOf({PoisonEffect::kNone, PoisonEffect::kNan}));
          EXPECT_FALSE(verify_outputs(problem, with_nan.bytes()).ok);
          EXPECT_FALSE(
              verify_outputs(problem, rounded_gated_output(problem, poisoned.x, "dropped NaN").bytes(), &poisoned).ok);
          for (const char* mutant : {"swapped", "no activation", "no product", "dropped product"})
            EXPECT_FALSE(verify_outputs(problem, rounded_gated_output(problem, problem.x(), mutant).bytes()).ok)
                << mutant;
        }
      }
    }
  }
}

// Where chains in fp16 may overflow nothing is asked of an output: an overflow and -Inf in X make NaN.
TEST(PoisonedInputTest, AsksNothingWhereNothingIsAskedAnyway) {
  PoisonedInput poisoned{.x = {}, .effects = std::vector(PoisonedInput::kPeriod, PoisonEffect::kFinite)};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const BoundedOutput unbounded{3, std::numeric_limits<double>::infinity()};
  EXPECT_TRUE(within_bound(DataType::kFloat16, poisoned.expected(DataType::kFloat16, unbounded, 0, 1), nan));
  EXPECT_FALSE(within_bound(DataType::kFloat16, poisoned.expected(DataType::kFloat16, {3, 1}, 0, 1), nan));
}

// Of a very large Y, blocks of tokens are looked at: the edges, and others by seed.
// As a library's that rounds partial sums to 16 bits.
TEST(NormErrorTest, OutputsBeyondTheBoundMayCountByTheirNorm) {
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(40, 31, 0.4, random);
  ReferenceProblem problem(matrix, sample_spec(matrix, DataType::kFloat16, Layout::kTokenMajor, "none"),
                           {.tokens = 6, .seed = 3, .padding = 2});
  problem.set_sums(problem.compute_sums());
  const ElementBuffer right = fp32_output(problem, problem.x());
  const auto scaled = [&](double factor) {
    ElementBuffer y = right;
    for (std::int64_t row = 0; row < matrix.rows; ++row)
      for (std::int64_t token = 0; token < 6; ++token) {
        const std::int64_t at = problem.output_index(row, token);
        y.set(at, static_cast<float>(right.get(at) * factor));
      }
    return y;
  };
  const ElementBuffer rounded = scaled(1 + 0x1p-9 * 0.9);
  EXPECT_FALSE(verify_outputs(problem, rounded.bytes()).ok);
  const Verification by_norm = verify_outputs(problem, rounded.bytes(), nullptr, /*by_norm=*/true);
  EXPECT_TRUE(by_norm.ok) << by_norm.reason;
  EXPECT_GT(by_norm.max_error_over_bound, 1) << "it is said all the same";
  EXPECT_FALSE(verify_outputs(problem, scaled(1 + 0x1p-8).bytes(), nullptr, true).ok);
  ElementBuffer beside = rounded;
  beside.set(beside.size() - 1, 1);
  EXPECT_FALSE(verify_outputs(problem, beside.bytes(), nullptr, true).ok) << "padding";
  ElementBuffer nan = right;
  nan.set(0, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(verify_outputs(problem, nan.bytes(), nullptr, true).ok);
}

TEST(LargeVerificationTest, LooksAtTheEdgesAndAtDrawnTokens) {
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(40, 31, 0.2, random);
  std::set<std::int64_t> seen;
  for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
      SCOPED_TRACE(testing::Message() << layout_name(layout) << " seed " << seed);
      ProblemOptions inputs{.tokens = 201, .seed = seed, .padding = 2};
      const OperatorSpec spec = sample_spec(matrix, DataType::kFloat16, layout, "bias+beta");
      ReferenceProblem all(matrix, spec, inputs);
      all.set_sums(all.compute_sums());
      EXPECT_TRUE(all.looks_at_all());
      const std::int64_t elements = inputs.tokens * (matrix.rows + matrix.cols);
      EXPECT_GE(all.operand_bytes(), elements * static_cast<std::int64_t>(size_of(spec.type))) << "X and Y";
      inputs.most_outputs = 5 * 16 * matrix.rows;
      ReferenceProblem some(matrix, spec, inputs);
      some.set_sums(some.compute_sums());
      const std::span<const std::int32_t> tokens = some.looked_at();
      ASSERT_EQ(some.output_columns(), std::ssize(tokens));
      EXPECT_LE(std::ssize(some.bounds()), inputs.most_outputs);
      EXPECT_GT(std::ssize(some.bounds()), inputs.most_outputs * 3 / 4);
      EXPECT_TRUE(std::ranges::is_sorted(tokens));
      EXPECT_EQ(tokens.front(), 0);
      EXPECT_EQ(tokens.back(), 200);
      seen.insert(tokens.begin(), tokens.end());
      for (std::int64_t column = 0; column < some.output_columns(); ++column) {
        EXPECT_EQ(some.output_index(7, column), all.output_index(7, some.token_of(column)));
        const BoundedOutput expected = all.expected(7, some.token_of(column));
        EXPECT_EQ(some.expected(7, column).bound, expected.bound);
        if (!std::isnan(expected.value)) {
          EXPECT_EQ(some.expected(7, column).value, expected.value);
        }
      }

      ElementBuffer right = fp32_output(all, all.x());
      EXPECT_TRUE(verify_outputs(some, right.bytes()).ok);
      const PoisonedInput poisoned = some.poisoned_input();
      EXPECT_TRUE(verify_outputs(some, fp32_output(all, poisoned.x).bytes(), &poisoned).ok);
      ElementBuffer beside = right;
      beside.set(beside.size() - 1, 1);
      EXPECT_THAT(verify_outputs(some, beside.bytes()).reason, testing::HasSubstr("between the lines of y"));
      const auto column = static_cast<std::int64_t>(random() % tokens.size());
      right.set(some.output_index(39, column), std::nanf("1"));
      const Verification wrong = verify_outputs(some, right.bytes());
      if (std::isnan(some.expected(39, column).value)) continue;
      EXPECT_FALSE(wrong.ok);
      EXPECT_THAT(wrong.reason, testing::StartsWith("y[row 39][token " + std::to_string(tokens[column]) + "]"));
      const std::string all_outputs = std::to_string(std::ssize(some.bounds()));
      EXPECT_THAT(wrong.reason, testing::EndsWith("; 1 of " + all_outputs + " outputs are wrong"));
    }
  }
  EXPECT_EQ(seen.size(), 201U) << "each token is looked at by some seed";
}

// Outputs that are sums over tokens: sddmm's. `mutant`: a mistake.
ElementBuffer fp32_values(const ReferenceProblem& problem, const ElementBuffer& x, const std::string& mutant = "") {
  ElementBuffer values = problem.initial_output();
  const CsrMatrix& matrix = problem.matrix();
  const DrawnOperand& dy = problem.operand("dy");
  const bool token_major = problem.spec().layout == Layout::kTokenMajor;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      float sum = 0;
      for (std::int64_t token = mutant == "first token" ? 1 : 0; token < problem.tokens(); ++token) {
        const float gradient = dy.contents.get(token_major ? token * dy.stride + row : row * dy.stride + token);
        const float activation = x.get(problem.x_index(matrix.column_indices[i], token));
        if (mutant == "dropped infinity" && std::isinf(activation)) continue;
        sum += gradient * activation;
      }
      float value = problem.alpha() * sum;
      if (problem.beta() != 0) value += problem.beta() * values.get(i);
      values.set(i, value);
    }
  }
  return values;
}

TEST(SddmmVerificationTest, MistakesAreCaughtAndInfinityReachesOnlyItsColumns) {
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(40, 31, 0.2, random);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      for (const auto& [tokens, kind] : {std::pair(1, InputKind::kVaried),
                                         {9, InputKind::kLarge},
                                         {33, InputKind::kVaried},
                                         {40, InputKind::kTiny}}) {
        SCOPED_TRACE(testing::Message() << short_name(type) << " " << layout_name(layout) << " N = " << tokens);
        OperatorSpec spec{
            .type = type, .layout = layout, .epilogue = {.beta = tokens == 9}, .kind = OperatorKind::kSddmm};
        spec.set_weight(matrix.rows, matrix.cols, matrix.nnz());
        ReferenceProblem problem(matrix, spec, {.tokens = tokens, .seed = 7, .kind = kind, .padding = tokens % 2});
        problem.set_sums(problem.compute_sums());
        EXPECT_EQ(problem.output().operand.name, "values");
        EXPECT_EQ(problem.output_rows(), matrix.nnz());
        const Verification right = verify_outputs(problem, fp32_values(problem, problem.x()).bytes());
        EXPECT_TRUE(right.ok) << right.reason;
        const Verification wrong = verify_outputs(problem, fp32_values(problem, problem.x(), "first token").bytes());
        EXPECT_FALSE(wrong.ok);
        EXPECT_THAT(wrong.reason, testing::StartsWith("values["));
        ElementBuffer moved = fp32_values(problem, problem.x());
        const float first = moved.get(0);
        moved.set(0, moved.get(1));
        moved.set(1, first);
        EXPECT_FALSE(verify_outputs(problem, moved.bytes()).ok) << "two outputs that are swapped";

        const PoisonedInput poisoned = problem.poisoned_input();
        const ElementBuffer reached = fp32_values(problem, poisoned.x);
        const Verification with_infinity = verify_outputs(problem, reached.bytes(), &poisoned);
        EXPECT_TRUE(with_infinity.ok) << with_infinity.reason;
        EXPECT_FALSE(verify_outputs(problem, reached.bytes()).ok);
        EXPECT_FALSE(verify_outputs(problem, fp32_values(problem, problem.x()).bytes(), &poisoned).ok);
        EXPECT_FALSE(
            verify_outputs(problem, fp32_values(problem, poisoned.x, "dropped infinity").bytes(), &poisoned).ok);
      }
    }
  }
}

// Old Y is NaN as a whole where beta is 0, and in some places otherwise.
TEST_P(VerificationTest, OldValuesAreReadOnlyWhereBetaIsNotZero) {
  const Case& c = GetParam();
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(60, 41, 0.1, random);
  const OperatorSpec spec = sample_spec(matrix, c.type, c.layout, c.epilogue);
  if (!spec.epilogue.beta) return;
  for (const float beta : {0.0F, 1.0F, -1.0F}) {
    ReferenceProblem problem(matrix, spec, {.tokens = 9, .seed = 3, .kind = c.kind, .beta = beta});
    problem.set_sums(problem.compute_sums());
    const auto is_nan = [](double value) { return std::isnan(value); };
    EXPECT_EQ(std::ranges::any_of(problem.expected_values(), is_nan), beta != 0);
    EXPECT_TRUE(verify_outputs(problem, fp32_output(problem, problem.x()).bytes()).ok);
    if (beta == 0) {
      EXPECT_FALSE(verify_outputs(problem, fp32_output(problem, problem.x(), "beta").bytes()).ok);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Operators, VerificationTest,
    testing::Values(Case{DataType::kFloat32, Layout::kTokenMajor, "none", InputKind::kVaried},
                    Case{DataType::kFloat32, Layout::kFeatureMajor, "bias+gelu+residual", InputKind::kVaried},
                    Case{DataType::kFloat32, Layout::kTokenMajor, "bias", InputKind::kLarge},
                    Case{DataType::kFloat32, Layout::kTokenMajor, "none", InputKind::kTiny},
                    Case{DataType::kFloat32, Layout::kTokenMajor, "bias+silu", InputKind::kZeros},
                    Case{DataType::kFloat16, Layout::kFeatureMajor, "none", InputKind::kVaried},
                    Case{DataType::kFloat16, Layout::kTokenMajor, "silu+beta", InputKind::kVaried},
                    Case{DataType::kFloat32, Layout::kTokenMajor, "bias+gelu_tanh", InputKind::kVaried},
                    Case{DataType::kFloat16, Layout::kTokenMajor, "none", InputKind::kTiny},
                    Case{DataType::kBFloat16, Layout::kTokenMajor, "bias+relu+beta+residual", InputKind::kVaried},
                    Case{DataType::kBFloat16, Layout::kFeatureMajor, "none", InputKind::kLarge}));

TEST(ReferenceProblemTest, TheSameSeedDrawsTheSameInputs) {
  std::mt19937 random(kSeed);
  const CsrMatrix matrix = random_matrix(20, 30, 0.3, random);
  const OperatorSpec spec = sample_spec(matrix, DataType::kFloat16, Layout::kTokenMajor, "bias");
  const ReferenceProblem a(matrix, spec, {.tokens = 4, .seed = 1});
  const ReferenceProblem b(matrix, spec, {.tokens = 4, .seed = 1});
  const ReferenceProblem c(matrix, spec, {.tokens = 4, .seed = 2});
  const auto bytes = [](const ReferenceProblem& p) {
    return std::vector<std::byte>(p.x().bytes().begin(), p.x().bytes().end());
  };
  EXPECT_EQ(bytes(a), bytes(b));
  EXPECT_NE(bytes(a), bytes(c));
}

TEST(ReferenceProblemTest, TakesEmptyMatrices) {
  for (const auto& [rows, cols] : {std::pair<int, int>{0, 4}, {4, 0}, {0, 0}, {3, 5}}) {
    CsrMatrix matrix;
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.row_offsets.assign(rows + 1, 0);
    ReferenceProblem problem(matrix, sample_spec(matrix, DataType::kFloat32, Layout::kTokenMajor, "none"),
                             {.tokens = 2});
    problem.set_sums(problem.compute_sums());
    ElementBuffer y(DataType::kFloat32, rows * 2);
    EXPECT_TRUE(verify_outputs(problem, y.bytes()).ok);
    EXPECT_EQ(verify_outputs(problem, problem.initial_output().bytes()).ok, rows == 0);
    EXPECT_FALSE(verify_outputs(problem, std::vector<std::byte>(3)).ok);
    (void)problem.poisoned_input();
  }
}

}  // namespace
}  // namespace sparsmith
