// The worker on the emulator: generated kernels are checked in another process, from their text, with no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulator/emulated_executor.h"
#include "generator/kernel_text.h"
#include "tests/worker_sample.h"
#include "tuner/reference_kernel.h"
#include "tuner/sample_weight.h"

namespace sparsmith::test {
namespace {

constexpr std::uint32_t kSeed = 32;

TEST(EmulatorWorkerTest, ChecksGeneratedKernels) {
  auto worker = Worker::start({.device = "emulator", .program = ""});
  if (!worker.ok()) GTEST_SKIP() << "no emulator: " << worker.status().to_string();
  EXPECT_TRUE((*worker)->properties().is_emulator);
  const CsrMatrix matrix = drawn_weight(45, 70, 0.2, kSeed);
  const OperatorSpec spec = sample_spec(matrix, DataType::kFloat16, Layout::kTokenMajor, "bias+relu");
  const Problem problem{.spec = spec, .tokens = 3, .device = (*worker)->properties()};
  ASSERT_TRUE((*worker)->set_weight(matrix, spec).ok());
  const auto candidates = ranked_candidates(problem, matrix, 2, nullptr, **worker);
  ASSERT_TRUE(candidates.ok()) << candidates.status().to_string();
  const Status tokens = (*worker)->set_tokens(3, kSeed);
  ASSERT_TRUE(tokens.ok()) << tokens.to_string();
  for (const LoadedCandidate& candidate : *candidates) {
    const auto verification = (*worker)->verify(candidate);
    ASSERT_TRUE(verification.ok()) << verification.status().to_string();
    EXPECT_TRUE(verification->ok) << verification->reason;
  }
  EXPECT_EQ((*worker)->time(candidates->front(), {}).status().code(), StatusCode::kUnsupported);

  // What the emulator finds is the candidate's, and the worker lives on.
  KernelText text;
  text.name = "writes_outside";
  text.threads = 1;
  text.headers = {"snippets/device.cuh"};
  text.parameters = {{"float*", "y"}};
  text.body = "y[1 << 20] = 1;";
  const auto kernel = assemble(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  PlanStep step;
  step.kernel = kernel->name;
  step.arguments = {{PlanArgument::Kind::kY, "", 0}};
  LoadedCandidate faulty = candidates->front();
  faulty.plan = {.steps = {step}, .workspace_bytes = 0};
  faulty.kernels = {{kernel->name, kernel->source, {}, 0}};
  const auto found = (*worker)->verify(faulty);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_FALSE(found->ok);
  EXPECT_THAT(found->reason, testing::HasSubstr("writes_outside"));
  EXPECT_TRUE((*worker)->verify(candidates->front())->ok);
}

TEST(EmulatedReferenceTest, TheReferenceKernelAgreesWithTheCpu) {
  auto executor = make_emulated_executor();
  if (!executor.ok()) GTEST_SKIP() << "no emulator: " << executor.status().to_string();
  const CsrMatrix matrix = drawn_weight(31, 57, 0.2, kSeed);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const auto source = reference_kernel(type);
    ASSERT_TRUE(source.ok()) << source.status().to_string();
    const Status loaded = (*executor)->load({source->name, source->source, {}, source->max_shared_bytes});
    ASSERT_TRUE(loaded.ok()) << loaded.to_string();
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      const ReferenceProblem problem(matrix, sample_spec(matrix, type, layout),
                                     {.tokens = 9, .seed = kSeed, .padding = 3});
      const auto emulated = compute_sums_on(**executor, problem);
      ASSERT_TRUE(emulated.ok()) << emulated.status().to_string();
      const ReferenceSums on_cpu = problem.compute_sums();
      for (std::size_t i = 0; i < on_cpu.sums.size(); ++i) {
        ASSERT_NEAR(emulated->sums[i], on_cpu.sums[i], 1e-12 * on_cpu.magnitudes[i]);
        ASSERT_NEAR(emulated->magnitudes[i], on_cpu.magnitudes[i], 1e-12 * on_cpu.magnitudes[i]);
      }
    }
  }
}

}  // namespace
}  // namespace sparsmith::test
