// Dense choices of a loaded model, on the fake driver and the fake cuBLASLt.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/dense_matmul.h"
#include "tests/support/tuned_model_fixture.h"

namespace sparsmith {
namespace {

using testing::ElementsAre;

// Dense choices, over both kinds and layouts and the epilogues that cuBLASLt covers, against the formula.
class DenseChoiceTest : public TunedModelTest,
                        public testing::WithParamInterface<std::tuple<std::string, std::string, std::string>> {};

TEST_P(DenseChoiceTest, ComputesTheOperator) {
  const auto& [kind_name, layout_text, epilogue_name] = GetParam();
  const OperatorKind kind = *operator_kind_of_name(kind_name);
  const bool straight = kind == OperatorKind::kSpmm;
  const Layout layout = layout_text == "token_major" ? Layout::kTokenMajor : Layout::kFeatureMajor;
  const int m_count = straight ? 2 : 3;
  const int k_count = straight ? 3 : 2;
  OperatorSpec& spec = sample_.contents().weights[2].operators[0].spec;
  spec.kind = kind;
  spec.rows = m_count;
  spec.cols = k_count;
  spec.layout = layout;
  spec.epilogue = *Epilogue::parse(epilogue_name);
  const Epilogue& epilogue = spec.epilogue;
  const auto model = load();
  if (!DenseMatmul::covers(spec)) {
    EXPECT_EQ(model.status().code(), StatusCode::kUnsupported);
    return;
  }
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const Operator fc3 = *model->op("fc3", kind);

  constexpr int kN = 4;
  constexpr float kW[2][3] = {{1, 0, 2}, {0, 3, 0}};
  bias_ = {0.5F, 0.25F, -0.75F};
  const bool token_major = layout == Layout::kTokenMajor;
  const int ldx = (token_major ? k_count : kN) + 1;
  const int ldy = (token_major ? m_count : kN) + 2;
  const int ldr = (token_major ? m_count : kN) + 3;
  const auto at = [token_major](int feature, int token, int ld) {
    return static_cast<std::size_t>(token_major ? token * ld + feature : feature * ld + token);
  };
  std::vector<float> x(40);
  std::vector<float> y(40);
  std::vector<float> residual(40);
  for (int i = 0; i < 40; ++i) {
    x[static_cast<std::size_t>(i)] = static_cast<float>(i % 7 - 3);
    y[static_cast<std::size_t>(i)] = static_cast<float>(i % 5);
    residual[static_cast<std::size_t>(i)] = static_cast<float>(i % 3 - 1);
  }
  std::vector<float> expected = y;
  for (int token = 0; token < kN; ++token) {
    for (int m = 0; m < m_count; ++m) {
      float sum = 0;
      for (int k = 0; k < k_count; ++k) sum += (straight ? kW[m][k] : kW[k][m]) * x[at(k, token, ldx)];
      float value = 2 * sum + (epilogue.bias ? bias_[static_cast<std::size_t>(m)] : 0);
      if (epilogue.activation == Activation::kRelu) value = std::max(value, 0.0F);
      if (epilogue.beta) value += 0.5F * y[at(m, token, ldy)];
      if (epilogue.residual) value += residual[at(m, token, ldr)];
      expected[at(m, token, ldy)] = value;
    }
  }
  std::vector<unsigned char> space(*fc3.workspace_bytes(kN) + 256);
  RunArguments arguments{.operands = {{"x", {x.data(), ldx}}, {"y", {y.data(), ldy}}}, .tokens = kN};
  if (epilogue.bias) arguments.operands.set("bias", {bias_.data()});
  if (epilogue.residual) arguments.operands.set("residual", {residual.data(), ldr});
  arguments.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(space.data()) + 255) / 256 * 256);
  arguments.alpha = 2;
  arguments.beta = epilogue.beta ? 0.5F : 0.0F;
  const Status status = fc3.run(arguments, nullptr);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(y, expected);
}

INSTANTIATE_TEST_SUITE_P(All, DenseChoiceTest,
                         testing::Combine(testing::Values("spmm", "spmm_transposed"),
                                          testing::Values("token_major", "feature_major"),
                                          testing::Values("none", "bias", "relu", "bias+relu", "beta", "residual",
                                                          "bias+residual", "beta+residual", "bias+gelu", "relu+beta")));

class DenseChoiceStepsTest : public TunedModelTest {
 protected:
  std::string load_error() {
    const Status written = write_tuned_file(path_, sample_.contents());
    if (!written.ok()) return written.message();
    const auto device = Device::open(0);
    EXPECT_TRUE(device.ok()) << device.status().to_string();
    return TunedModel::load(path_, *device).status().message();
  }
};

// Which algorithm the last product was told to take (fake_cublas_lt.cc): it proposes as many as there are tokens, three
// at most, and the third serves even counts of them alone.
std::uint64_t fake_count(const char* name) {
  void* const library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
  return *static_cast<const std::uint64_t*>(dlsym(library, name));
}
std::uint64_t taken() { return fake_count("fake_cublas_lt_took"); }

TEST_F(DenseChoiceStepsTest, TakeTheAlgorithmThatWasProposedForTheBucket) {
  const auto takes = [&](int proposal, std::int64_t proposed_for, std::int64_t tokens) {
    PlanStep& step = sample_.contents().weights[2].operators[0].choices[0].plan.steps[0];
    step.proposal = proposal;
    step.proposed_for = proposed_for;
    const Operator fc3 = op("fc3");
    std::vector<unsigned char> space(*fc3.workspace_bytes(tokens) + 256);
    std::vector<float> x(3 * tokens);
    std::vector<float> y(2 * tokens);
    RunArguments arguments{.operands = {{"x", {x.data()}}, {"y", {y.data()}}, {"bias", {bias_.data()}}},
                           .tokens = tokens};
    arguments.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(space.data()) + 255) / 256 * 256);
    const Status status = fc3.run(arguments, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return taken();
  };
  EXPECT_EQ(takes(0, 0, 4), 0U);
  EXPECT_EQ(takes(2, 0, 4), 2U);
  EXPECT_EQ(takes(1, 8, 8), 1U);
  EXPECT_EQ(takes(2, 8, 6), 2U);
  EXPECT_EQ(takes(2, 8, 2), 2U) << "for two tokens alone the library would propose two";
  EXPECT_EQ(takes(2, 8, 5), 0U) << "it does not serve odd counts: the first that is proposed for them does";
  EXPECT_EQ(takes(2, 2, 6), 0U) << "for two tokens there are two: the first is taken";
}

TEST_F(DenseChoiceStepsTest, AskTheLibraryOnceForEachNumberOfTokens) {
  const Operator fc3 = op("fc3");
  std::vector<unsigned char> space(*fc3.workspace_bytes(8) + 256);
  std::vector<float> x(24);
  std::vector<float> y(16);
  RunArguments arguments{.operands = {{"x", {x.data()}}, {"y", {y.data()}}, {"bias", {bias_.data()}}}};
  arguments.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(space.data()) + 255) / 256 * 256);
  ASSERT_TRUE(fc3.run(arguments, nullptr).ok());
  const std::uint64_t before = fake_count("fake_cublas_lt_asked");
  for (const std::int64_t tokens : {4, 8, 4, 1, 8}) {
    arguments.tokens = tokens;
    ASSERT_TRUE(fc3.run(arguments, nullptr).ok());
  }
  EXPECT_EQ(fake_count("fake_cublas_lt_asked"), before + 2) << "for 4 and 8; 1 was known";
}

// sddmm: alpha * dY X^T at all places of the weight.
TEST_F(DenseChoiceStepsTest, WriteTheGradientToTheWorkspace) {
  constexpr int kN = 4;
  for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
    TunedSample sample;
    TunedWeight& weight = sample.contents().weights[0];
    TunedOperator& gradient = weight.operators.emplace_back(TunedOperator(weight.operators[0]));
    gradient.spec = {.layout = layout, .kind = OperatorKind::kSddmm};
    gradient.spec.set_weight(weight.rows, weight.cols, weight.nnz);
    gradient.choices.resize(1);
    gradient.choices[0].plan = {{gradient_step(16)}, 16 + 6 * 4};
    sample_.contents() = sample.contents();
    const auto model = load();
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    const Operator op = model->op("fc/1", OperatorKind::kSddmm).value();

    const bool token_major = layout == Layout::kTokenMajor;
    const int ldx = (token_major ? 3 : kN) + 1;
    const int lddy = (token_major ? 2 : kN) + 2;
    const auto at = [token_major](int feature, int token, int ld) {
      return static_cast<std::size_t>(token_major ? token * ld + feature : feature * ld + token);
    };
    std::vector<float> x(40);
    std::vector<float> dy(40);
    for (int i = 0; i < 40; ++i) {
      x[static_cast<std::size_t>(i)] = static_cast<float>(i % 7 - 3);
      dy[static_cast<std::size_t>(i)] = static_cast<float>(i % 5 - 1);
    }
    std::vector<float> expected;
    for (int m = 0; m < 2; ++m) {
      for (int k = 0; k < 3; ++k) {
        float sum = 0;
        for (int token = 0; token < kN; ++token) sum += dy[at(m, token, lddy)] * x[at(k, token, ldx)];
        expected.push_back(-2 * sum);
      }
    }
    std::vector<unsigned char> space(*op.workspace_bytes(kN) + 256);
    RunArguments arguments{.operands = {{"x", {x.data(), ldx}}, {"dy", {dy.data(), lddy}}, {"values", {y_.data()}}},
                           .tokens = kN};
    arguments.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(space.data()) + 255) / 256 * 256);
    arguments.alpha = -2;
    const Status status = op.run(arguments, nullptr);
    ASSERT_TRUE(status.ok()) << status.to_string();
    const auto* const found = reinterpret_cast<const float*>(static_cast<const char*>(arguments.workspace) + 16);
    EXPECT_EQ(std::vector<float>(found, found + 6), expected) << layout_name(layout);
  }
}

TEST_F(DenseChoiceStepsTest, AGradientFitsTheWorkspaceAndHasNoWeight) {
  TunedWeight& weight = sample_.contents().weights[0];
  TunedOperator& gradient = weight.operators.emplace_back(TunedOperator(weight.operators[0]));
  gradient.spec = {.kind = OperatorKind::kSddmm};
  gradient.spec.set_weight(weight.rows, weight.cols, weight.nnz);
  gradient.choices.resize(1);
  LaunchPlan& plan = gradient.choices[0].plan;
  plan = {{gradient_step(0)}, 6 * 4 - 1};
  EXPECT_THAT(load_error(), testing::HasSubstr("a gradient of 2 x 3, 4 bytes each, does not fit"));
  plan = {{matmul_step("values", IntegerExpression(0))}, 24};
  EXPECT_THAT(load_error(), testing::HasSubstr("of which sddmm has the pattern alone"));
  weight.operators.pop_back();
  weight.operators[0].choices[0].plan = {{gradient_step(0)}, 64};
  EXPECT_THAT(load_error(), testing::HasSubstr("there is no array"));
}

TEST_F(DenseChoiceStepsTest, WriteTheProductToTheWorkspaceFirst) {
  TunedWeight& weight = sample_.contents().weights[2];
  weight.operators[0].spec.epilogue = *Epilogue::parse("gelu");
  TunedChoice& choice = weight.operators[0].choices[0];
  PlanStep step;
  step.kernel = "epilogue";  // does nothing on the fake driver
  choice.plan = {{matmul_step("values", IntegerExpression(0)), step}, *IntegerExpression::parse("n * 8")};
  TunedKernel kernel = sample_.contents().kernels[0];
  kernel.name = "epilogue";
  const std::vector<std::byte> cubin = fake_cubin(kernel.name);
  for (TunedKernel::Binary& binary : kernel.binaries) binary.cubin = cubin;
  sample_.contents().kernels.push_back(kernel);
  const Operator fc3 = op("fc3");
  const std::size_t bytes = *fc3.workspace_bytes(2);
  EXPECT_EQ(bytes, 256 + DenseMatmul::kScratchBytes);
  std::vector<unsigned char> space(bytes + 256);
  auto* workspace = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(space.data()) + 255) / 256 * 256);
  ASSERT_TRUE(
      fc3.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}}, .tokens = 2, .workspace = workspace}, nullptr)
          .ok());
  EXPECT_THAT(std::vector<float>(workspace, workspace + 4), ElementsAre(201, 30, 402, 60));
  EXPECT_EQ(fake_cuda().launches.back().kernel, "epilogue");
}

}  // namespace
}  // namespace sparsmith
