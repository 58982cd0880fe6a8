// Checks that stay on the device: they find what those of the host do, in the emulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "emulator/emulated_executor.h"
#include "generator/kernel_text.h"
#include "tests/support/sample_weight.h"
#include "tests/support/worker_sample.h"
#include "tuner/verify/plan_verifier.h"

namespace sparsmith::test {
namespace {

constexpr std::uint32_t kSeed = 33;

Status load(Executor& executor, const Result<KernelSource>& source) {
  SPARSMITH_RETURN_IF_ERROR(source.status());
  return executor.load({source->name, source->source, {}, source->max_shared_bytes});
}

// The same of both, but for the last bits of sums.
void expect_same(const Verification& on_device, const Verification& on_host) {
  EXPECT_EQ(on_device.ok, on_host.ok);
  EXPECT_EQ(on_device.reason, on_host.reason);
  EXPECT_EQ(on_device.max_error_over_bound, on_host.max_error_over_bound);
  if (std::isfinite(on_host.norm_error))
    EXPECT_NEAR(on_device.norm_error, on_host.norm_error, 1e-12 * on_host.norm_error);
  else
    EXPECT_FALSE(std::isfinite(on_device.norm_error));
}

struct Case {
  DataType type;
  Layout layout;
  const char* epilogue;
  InputKind kind;
  Accumulation accumulation = Accumulation::kFp32;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << short_name(c.type) << " " << layout_name(c.layout) << " " << c.epilogue << " inputs "
       << static_cast<int>(c.kind) << " " << accumulation_name(c.accumulation);
}

class EmulatorComparisonTest : public testing::TestWithParam<Case> {};

TEST_P(EmulatorComparisonTest, FindsWhatTheHostFinds) {
  auto executor = make_emulated_executor();
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  const Case& c = GetParam();
  const Status loaded = load(**executor, output_comparison_kernel(c.type));
  ASSERT_TRUE(loaded.ok()) << loaded.to_string();
  ASSERT_TRUE(load(**executor, fingerprint_kernel()).ok());
  Fingerprinter fingerprinter(**executor);
  const CsrMatrix matrix = drawn_weight(45, 70, 0.2, kSeed);
  std::mt19937 random(kSeed);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  int overflown = 0;
  for (const std::int64_t tokens : {1, 6, 61, 300}) {
    ProblemOptions inputs{.tokens = tokens, .seed = kSeed, .kind = c.kind};
    if (tokens == 300) inputs.most_outputs = matrix.rows * 70;
    OperatorSpec spec = sample_spec(matrix, c.type, c.layout, c.epilogue);
    spec.accumulation = c.accumulation;
    ReferenceProblem problem(matrix, spec, inputs);
    problem.set_sums(problem.compute_sums());
    const std::int64_t columns = problem.output_columns();
    EXPECT_EQ(columns < tokens, tokens == 300);
    ElementBuffer right(c.type, matrix.rows * tokens);
    const PoisonedInput poisoned = problem.poisoned_input();
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column)
        right.set(problem.output_index(row, column), static_cast<float>(problem.expected(row, column).value));
    }
    for (std::int64_t i = 0; i < right.size(); ++i) overflown += std::isinf(right.get(i)) ? 1 : 0;
    const auto kept = DeviceProblem::upload(**executor, problem, poisoned, fingerprinter);
    ASSERT_TRUE(kept.ok()) << kept.status().to_string();
    const auto y = DeviceAllocation::make(**executor, right.bytes().size());
    ASSERT_TRUE(y.ok());

    ElementBuffer right_if_poisoned = right;
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t token = problem.token_of(column);
        const BoundedOutput expected = poisoned.expected(c.type, problem.expected(row, column), row, token);
        right_if_poisoned.set(problem.output_index(row, column), static_cast<float>(expected.value));
      }
    }
    for (int plant = 0; plant < 18; ++plant) {
      SCOPED_TRACE(testing::Message() << "N " << tokens << ", plant " << plant);
      ElementBuffer outputs = plant % 2 == 0 ? right : right_if_poisoned;
      const int plants = plant / 2 % 4;
      for (int i = 0; i < plants; ++i) {
        const auto row = static_cast<std::int64_t>(random() % matrix.rows);
        const auto column = static_cast<std::int64_t>(random() % columns);
        const BoundedOutput expected = problem.expected(row, column);
        const float wrong[] = {std::nanf(""), kInfinity, -kInfinity,
                               static_cast<float>(expected.value + 0.7 * expected.bound),
                               static_cast<float>(expected.value - 1.5 * expected.bound)};
        outputs.set(problem.output_index(row, column), wrong[random() % 5]);
      }
      ASSERT_TRUE((*executor)->write(y->address(), outputs.bytes()).ok());
      const auto all = (*kept)->verify(y->address(), c.layout);
      ASSERT_TRUE(all.ok()) << all.status().to_string();
      expect_same(*all, verify_outputs(problem, outputs.bytes()));
      const auto all_poisoned = (*kept)->verify(y->address(), c.layout, true);
      ASSERT_TRUE(all_poisoned.ok()) << all_poisoned.status().to_string();
      expect_same(*all_poisoned, verify_outputs(problem, outputs.bytes(), &poisoned));
      if (plants == 0) {
        EXPECT_EQ(all->ok, plant % 2 == 0) << all->reason;
        EXPECT_EQ(all_poisoned->ok, plant % 2 != 0) << all_poisoned->reason;
      }
    }
  }
  EXPECT_EQ(overflown > 0, c.type == DataType::kFloat16 && c.kind == InputKind::kLarge);
}

INSTANTIATE_TEST_SUITE_P(
    Operators, EmulatorComparisonTest,
    testing::Values(Case{DataType::kFloat32, Layout::kTokenMajor, "none", InputKind::kVaried},
                    Case{DataType::kFloat32, Layout::kFeatureMajor, "bias+gelu+residual", InputKind::kVaried},
                    Case{DataType::kFloat32, Layout::kTokenMajor, "bias+beta", InputKind::kLarge},
                    Case{DataType::kFloat16, Layout::kTokenMajor, "none", InputKind::kLarge},
                    Case{DataType::kFloat16, Layout::kFeatureMajor, "relu", InputKind::kLarge,
                         Accumulation::kFp16Chains},
                    Case{DataType::kFloat16, Layout::kFeatureMajor, "silu+beta", InputKind::kVaried},
                    Case{DataType::kFloat16, Layout::kFeatureMajor, "none", InputKind::kTiny},
                    Case{DataType::kBFloat16, Layout::kTokenMajor, "bias+relu+beta+residual", InputKind::kVaried},
                    Case{DataType::kBFloat16, Layout::kFeatureMajor, "none", InputKind::kLarge}));

// A plain product with bias, beta and residual, and behind it a kernel of one thread that does what it should not.
class EmulatorVerifierTest : public testing::TestWithParam<bool> {
 protected:
  void start(std::uint64_t memory_bytes = std::uint64_t{8} << 30) {
    auto executor = make_emulated_executor({.memory_bytes = memory_bytes});
    ASSERT_TRUE(executor.ok()) << executor.status().to_string();
    executor_ = *std::move(executor);
    ASSERT_TRUE(load(*executor_, assemble(product_text())).ok());
    ASSERT_TRUE(load(*executor_, fingerprint_kernel()).ok());
    ASSERT_TRUE(load(*executor_, output_comparison_kernel(DataType::kFloat32)).ok());
    fingerprinter_.emplace(*executor_);
    problem_.set_sums(problem_.compute_sums());
    auto verifier = PlanVerifier::create(*executor_, problem_, GetParam() ? &*fingerprinter_ : nullptr);
    ASSERT_TRUE(verifier.ok()) << verifier.status().to_string();
    verifier_ = *std::move(verifier);
    auto packing = DevicePacking::upload(*executor_, sample_packing(matrix_), &*fingerprinter_);
    ASSERT_TRUE(packing.ok());
    packing_.emplace(*std::move(packing));
  }

  KernelText product_text() const {
    KernelText text;
    text.name = "product";
    text.threads = 64;
    text.headers = {"snippets/device.cuh"};
    text.parameters = {{"const i32*", "row_offsets", packed_array("row_offsets")},
                       {"const u32*", "columns", packed_array("columns")},
                       {"const float*", "values", packed_array("values")},
                       {"const float*", "x", operand("x")},
                       {"float*", "y", operand("y")},
                       {"const float*", "bias", operand("bias")},
                       {"const float*", "residual", operand("residual")},
                       {"float", "alpha", scalar("alpha")},
                       {"float", "beta", scalar("beta")},
                       {"i64", "rows", integer(matrix_.rows)},
                       {"i64", "cols", integer(matrix_.cols)},
                       {"i64", "tokens", integer("n")}};
    text.body =
        "const i64 output = static_cast<i64>(block_index_x()) * kThreads + thread_index();\n"
        "if (output >= rows * tokens) return;\n"
        "const i64 row = output % rows;\n"
        "float sum = 0;\n"
        "for (i32 i = row_offsets[row]; i < row_offsets[row + 1]; ++i)\n"
        "  sum += values[i] * x[output / rows * cols + columns[i]];\n"
        "y[output] = alpha * sum + bias[row] + beta * y[output] + residual[output];";
    return text;
  }

  // What verifying ends with when the product is followed by `body`.
  Verification verify(const std::string& body) {
    KernelText text;
    text.name = "behind";
    text.threads = 1;
    text.headers = {"snippets/device.cuh"};
    for (const char* name : {"x", "y", "bias", "residual"}) text.parameters.push_back({"float*", name, operand(name)});
    text.body = body;
    const Status loaded = load(*executor_, assemble(text));
    EXPECT_TRUE(loaded.ok()) << loaded.to_string();
    PlanStep product = launch_of(product_text());
    product.grid[0] = (matrix_.rows * problem_.tokens() + 63) / 64;
    const auto found = verifier_->verify({.steps = {product, launch_of(text)}, .workspace_bytes = 64}, *packing_);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    return found.ok() ? *found : Verification{};
  }
  void expect_right(const std::string& after) {
    const Verification right = verify("y[0] = y[0];");
    EXPECT_TRUE(right.ok) << "after " << after << ": " << right.reason;
    EXPECT_GT(right.max_error_over_bound, 0);
  }

  const CsrMatrix matrix_ = sample_weight(23, 40, 0.1, 11);
  ReferenceProblem problem_{matrix_,
                            sample_spec(matrix_, DataType::kFloat32, Layout::kTokenMajor, "bias+beta+residual"),
                            {.tokens = 9, .seed = kSeed}};
  std::unique_ptr<Executor> executor_;
  std::optional<Fingerprinter> fingerprinter_;
  std::optional<DevicePacking> packing_;
  std::unique_ptr<PlanVerifier> verifier_;
};

TEST_P(EmulatorVerifierTest, FaultsAreCaughtAndHarmNoOther) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  EXPECT_EQ(verifier_->on_device() != nullptr, GetParam());
  expect_right("nothing");
  const std::vector<PoisonEffect> effects = problem_.poisoned_input().effects;
  const auto free_row = (std::ranges::find(effects, PoisonEffect::kNone) - effects.begin()) / PoisonedInput::kPeriod;
  ASSERT_LT(free_row, 23);
  const std::string reaches =
      "y[" + std::to_string(free_row) + "] += 0 * x[0];";  // of the first column, which is poisoned
  const auto touched = std::ranges::find(effects, PoisonEffect::kNan) - effects.begin();
  const std::string at = std::to_string(touched / PoisonedInput::kPeriod + 23 * (touched % PoisonedInput::kPeriod));
  const std::string drops = "if (!is_finite(y[" + at + "])) y[" + at + "] = 0;";
  for (const auto& [body, reason] : {std::pair<std::string, const char*>{"y[30] += 1;", "y[row 7][token 1] = "},
                                     {"y[206] = y[206] / 0.0F;", "1 of 207 outputs are wrong"},
                                     {"x[7] = 3;", "changed x"},
                                     {"bias[22] = 1;", "changed bias"},
                                     {"residual[206] = 1;", "changed residual"},
                                     {reaches, "with Inf and NaN in X: y[row"},
                                     {drops, "with Inf and NaN in X: y[row"},
                                     {"y[1 << 20] = 1;", "behind"}}) {
    const Verification found = verify(body);
    EXPECT_FALSE(found.ok) << body;
    EXPECT_THAT(found.reason, testing::HasSubstr(reason)) << body;
    expect_right(body);
  }
}

TEST_P(EmulatorVerifierTest, ExpectedOutputsThatWereOverwrittenAreBroughtAgain) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped() || !GetParam()) return;
  expect_right("nothing");
  const DeviceAddress values = verifier_->on_device()->values().address();
  ASSERT_TRUE(executor_->fill(values + 80, std::byte{0x11}, 8).ok());
  expect_right("a write to the expected outputs");
}

TEST_P(EmulatorVerifierTest, WithoutMemoryTheHostCompares) {
  ASSERT_NO_FATAL_FAILURE(start(std::uint64_t{48} << 10));
  if (IsSkipped()) return;
  EXPECT_EQ(verifier_->on_device(), nullptr);
  expect_right("nothing");
  EXPECT_FALSE(verify("x[7] = 3;").ok);
  expect_right("a change of x");
}

INSTANTIATE_TEST_SUITE_P(Places, EmulatorVerifierTest, testing::Bool(),
                         [](const auto& place) { return place.param ? "device" : "host"; });

}  // namespace
}  // namespace sparsmith::test
