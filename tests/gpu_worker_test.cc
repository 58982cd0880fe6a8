// The worker on a GPU: executor, reference, checks, timing, and the vendor libraries, all against the CPU's reference.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "formats/packed_format.h"
#include "generator/families/dense/dense_family.h"
#include "runtime/gpu_executor.h"
#include "search/trial/trial.h"
#include "tests/support/drawn_two_four.h"
#include "tests/support/sample_weight.h"
#include "tests/support/worker_sample.h"
#include "tuner/verify/reference_kernel.h"
#include "tuner/verify/verification.h"

namespace sparsmith::test {
namespace {

constexpr std::uint32_t kSeed = 31;

class GpuWorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto worker = Worker::start({.device = "cuda:0", .program = ""});
    if (!worker.ok()) GTEST_SKIP() << "no GPU: " << worker.status().to_string();
    worker_ = *std::move(worker);
    auto compiler = KernelCompiler::open();
    ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
    compiler_ = *std::move(compiler);
  }
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<KernelCompiler> compiler_;
};

TEST_F(GpuWorkerTest, SpeedsArePlausible) {
  const auto speeds = worker_->measure_speeds();
  ASSERT_TRUE(speeds.ok()) << speeds.status().to_string();
  fmt::print("{}: {:.0f} GB/s read + written, {:.0f} GB/s from L2, {:.2f} us a launch\n", worker_->properties().name,
             speeds->memory_bandwidth * 1e-9, speeds->l2_bandwidth * 1e-9, speeds->launch_us);
  EXPECT_GT(speeds->l2_bandwidth, speeds->memory_bandwidth);
  EXPECT_LT(speeds->l2_bandwidth, 20 * speeds->memory_bandwidth);
  EXPECT_GT(speeds->launch_us, 0.3);
  EXPECT_LT(speeds->launch_us, 10);
  // Of what the bus could carry.
  EXPECT_GT(speeds->memory_bandwidth, 0.75 * worker_->properties().memory_bandwidth);
  EXPECT_LT(speeds->memory_bandwidth, worker_->properties().memory_bandwidth);
  // What the cost models take an H200 for is what the probe finds there.
  if (worker_->properties().name.find("H200") == std::string::npos) return;
  const DeviceProperties typical = typical_device(90);
  EXPECT_NEAR(speeds->memory_bandwidth, typical.memory_bandwidth, 0.05 * typical.memory_bandwidth);
  EXPECT_NEAR(speeds->l2_bandwidth, typical.l2_bandwidth, 0.15 * typical.l2_bandwidth);
  EXPECT_NEAR(speeds->launch_us, typical.launch_us, 0.2);
}

TEST_F(GpuWorkerTest, ReferenceKernelsAgreeWithTheCpu) {
  auto executor = GpuExecutor::create(0);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  expect_references_agree(**executor, drawn_weight(301, 517, 0.1, kSeed), compiler_.get());
}

struct Case {
  DataType type;
  std::int64_t tokens;
  Layout layout;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << short_name(c.type) << " N=" << c.tokens << " " << layout_name(c.layout);
}

class GpuWorkerCaseTest : public GpuWorkerTest, public testing::WithParamInterface<Case> {};

TEST_P(GpuWorkerCaseTest, CandidatesAndVendorsAreRightAndTimed) {
  const Case& c = GetParam();
  const CsrMatrix matrix = drawn_weight(1024, 2048, 0.1, kSeed);
  const Problem problem{
      .spec = sample_spec(matrix, c.type, c.layout), .tokens = c.tokens, .device = worker_->properties()};
  const Status weight = worker_->set_weight(matrix, problem.spec);
  ASSERT_TRUE(weight.ok()) << weight.to_string();
  const auto candidates = ranked_candidates(problem, matrix, 3, compiler_.get(), *worker_);
  ASSERT_TRUE(candidates.ok()) << candidates.status().to_string();
  const Status tokens = worker_->call(TokensCall{c.tokens, kSeed});
  ASSERT_TRUE(tokens.ok()) << tokens.to_string();

  const TimingPolicy policy;
  for (const CompiledCandidate& candidate : *candidates) {
    const auto verification = worker_->call(VerifyCall{candidate});
    ASSERT_TRUE(verification.ok()) << verification.status().to_string();
    EXPECT_TRUE(verification->ok) << candidate.kernels[0].name << ": " << verification->reason;
  }
  const auto timing = worker_->call(TimeCall{{candidates->front()}, {}, policy});
  ASSERT_TRUE(timing.ok()) << timing.status().to_string();
  EXPECT_GT(timing->front().median_us, 0.5);
  EXPECT_LE(timing->front().q1_us, timing->front().median_us);
  EXPECT_GE(timing->front().q3_us, timing->front().median_us);
  EXPECT_GE(timing->front().samples_us.size(), 15U);
  EXPECT_FALSE(timing->front().warm);
  EXPECT_GT(timing->front().copies, 1);

  const auto vendor = worker_->call(VendorCall{"cusparse", policy});
  ASSERT_TRUE(vendor.ok()) << vendor.status().to_string();
  ASSERT_TRUE(vendor->supported) << vendor->detail;
  EXPECT_LE(vendor->verification.norm_error, norm_error_limit(c.type)) << vendor->detail;
  EXPECT_GT(vendor->timing.median_us, 0.5);
  EXPECT_GT(vendor->weight_bytes, 0);
  fmt::print("  {} N={} {}: cusparse {:.2f} us, error/bound {:.3f} ({})\n", short_name(c.type), c.tokens,
             layout_name(c.layout), vendor->timing.median_us, vendor->verification.max_error_over_bound,
             vendor->detail);
  const auto together = worker_->call(TimeCall{*candidates, {"cusparse"}, policy});
  ASSERT_TRUE(together.ok()) << together.status().to_string();
  ASSERT_EQ(together->size(), candidates->size() + 1);
  for (const Timing& one : *together) EXPECT_GE(one.samples_us.size(), 3U);
  fmt::print("  {} N={} {}: ours {:.2f} us alone, {:.2f} us interleaved\n", short_name(c.type), c.tokens,
             layout_name(c.layout), timing->front().median_us, together->front().median_us);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16})
    for (const std::int64_t tokens : {1, 8, 128})
      for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) cases.push_back({type, tokens, layout});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Problems, GpuWorkerCaseTest, testing::ValuesIn(all_cases()), [](const auto& instance) {
  return fmt::format("{}_{}_{}", short_name(instance.param.type), instance.param.tokens,
                     layout_name(instance.param.layout));
});

TEST_F(GpuWorkerTest, EpiloguesAreCheckedAndVendorsSayThatTheyLeaveThemOut) {
  const CsrMatrix matrix = drawn_weight(200, 300, 0.1, kSeed);
  const OperatorSpec spec = sample_spec(matrix, DataType::kFloat16, Layout::kTokenMajor, "bias+gelu+beta+residual");
  const Problem problem{.spec = spec, .tokens = 8, .device = worker_->properties()};
  const Status weight = worker_->set_weight(matrix, spec);
  ASSERT_TRUE(weight.ok()) << weight.to_string();
  const auto candidates = ranked_candidates(problem, matrix, 1, compiler_.get(), *worker_);
  ASSERT_TRUE(candidates.ok()) << candidates.status().to_string();
  ASSERT_TRUE(worker_->call(TokensCall{8, kSeed}).ok());
  const auto verification = worker_->call(VerifyCall{candidates->front()});
  ASSERT_TRUE(verification.ok()) << verification.status().to_string();
  EXPECT_TRUE(verification->ok) << verification->reason;
  const auto vendor = worker_->call(VendorCall{"cusparse", {}});
  ASSERT_TRUE(vendor.ok()) << vendor.status().to_string();
  EXPECT_LE(vendor->verification.norm_error, norm_error_limit(problem.spec.type)) << vendor->detail;
  EXPECT_THAT(vendor->detail, testing::HasSubstr("without the epilogue"));
  EXPECT_TRUE(vendor->epilogue_left_out);
  EXPECT_EQ(worker_->call(VendorCall{"another", {}}).status().code(), StatusCode::kNotFound);
}

// cuSPARSELt on a 2:4 weight, in a fresh worker as often as an algorithm breaks the device.
TEST_P(GpuWorkerCaseTest, CusparseLtIsRightAndTimed) {
  const Case& c = GetParam();
  Random random(kSeed);
  CsrMatrix matrix = draw_two_four(random, 1024, 2048, 0.9);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] = 0.25F + static_cast<float>(i % 97) / 64;
  const OperatorSpec spec = sample_spec(matrix, c.type, c.layout);
  VendorCall call{"cusparselt", {}};
  VendorTiming vendor;
  for (;;) {
    const Status weight = worker_->set_weight(matrix, spec);
    ASSERT_TRUE(weight.ok()) << weight.to_string();
    ASSERT_TRUE(worker_->call(TokensCall{c.tokens, kSeed}).ok());
    const auto measured = worker_->call(call);
    ASSERT_TRUE(measured.ok()) << measured.status().to_string();
    vendor = *measured;
    if (vendor.broke.empty()) break;
    fmt::print("  {} N={} {}: {}\n", short_name(c.type), c.tokens, layout_name(c.layout), vendor.detail);
    call.without.push_back(vendor.broke);
    ASSERT_LE(call.without.size(), 40U);
    worker_ = Worker::start({.device = "cuda:0", .program = ""}).value();
  }
  if (vendor.detail.find("libcusparseLt.so.0 not found") != std::string::npos) GTEST_SKIP() << vendor.detail;
  const bool takes = c.type != DataType::kFloat32 && c.tokens % 8 == 0;
  EXPECT_EQ(vendor.supported, takes) << vendor.detail;
  if (!takes || !vendor.supported) return;
  EXPECT_LE(vendor.verification.norm_error, norm_error_limit(c.type)) << vendor.detail;
  EXPECT_FALSE(vendor.timing.warm);
  EXPECT_GT(vendor.timing.copies, 1);
  EXPECT_GE(vendor.weight_bytes, 1024 * 2048 * 9 / 8);
  fmt::print("  {} N={} {}: cusparselt {:.2f} us ({})\n", short_name(c.type), c.tokens, layout_name(c.layout),
             vendor.timing.median_us, vendor.detail);
}

// A dense product and the kernel behind it, as one candidate: right, against fp64, and timed with cold copies.
TEST_P(GpuWorkerCaseTest, DenseWithAnEpilogueOfOursIsRightAndTimed) {
  const Case& c = GetParam();
  const CsrMatrix matrix = drawn_weight(1001, 2048, 0.1, kSeed);
  const OperatorSpec spec = sample_spec(matrix, c.type, c.layout, "bias+silu+beta+residual");
  const auto candidate = dense_with_epilogue(spec);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  CompiledCandidate loaded = loaded_candidate(*candidate);
  const auto compiled =
      compiler_->compile(candidate->kernels.at(0), fmt::format("sm_{}", worker_->properties().compute_capability));
  ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  loaded.kernels.at(0).cubin = compiled->cubin;

  const Status weight = worker_->set_weight(matrix, spec);
  ASSERT_TRUE(weight.ok()) << weight.to_string();
  const Status packing = worker_->add_packing(*pack("dense", matrix, c.type));
  ASSERT_TRUE(packing.ok()) << packing.to_string();
  const Status tokens = worker_->call(TokensCall{c.tokens, kSeed});
  ASSERT_TRUE(tokens.ok()) << tokens.to_string();
  const auto verification = worker_->call(VerifyCall{loaded});
  ASSERT_TRUE(verification.ok()) << verification.status().to_string();
  EXPECT_TRUE(verification->ok) << verification->reason;
  const auto timing = worker_->call(TimeCall{{loaded}, {}, {}});
  ASSERT_TRUE(timing.ok()) << timing.status().to_string();
  EXPECT_GT(timing->front().copies, 1);
  EXPECT_FALSE(timing->front().warm);
}

// Each algorithm that the library proposes, as the library's own epilogue, as a product of its own and as a gradient;
// those that it does not propose say so.
TEST_P(GpuWorkerCaseTest, ProposalsOfDenseAreRightAndTimed) {
  const Case& c = GetParam();
  const CsrMatrix matrix = drawn_weight(1001, 2048, 0.1, kSeed);
  std::vector<OperatorSpec> specs;
  for (const char* epilogue : {"none", "relu+residual"})
    specs.push_back(sample_spec(matrix, c.type, c.layout, epilogue));
  for (const bool beta : {false, true}) {
    OperatorSpec& gradient = specs.emplace_back(
        OperatorSpec{.type = c.type, .layout = c.layout, .epilogue = {.beta = beta}, .kind = OperatorKind::kSddmm});
    gradient.set_weight(matrix.rows, matrix.cols, matrix.nnz());
  }
  for (const OperatorSpec& spec : specs) {
    const Problem problem{spec, c.tokens, worker_->properties()};
    ASSERT_TRUE(worker_->set_weight(matrix, problem.spec).ok());
    const PackedWeight packed = *dense_family().pack({"dense", {{"proposal", 0}}}, problem, matrix);
    ASSERT_TRUE(worker_->add_packing(packed).ok());
    ASSERT_TRUE(worker_->call(TokensCall{c.tokens, kSeed}).ok());
    const Family& dense = dense_family();
    int right = 0;
    const std::vector<Parameter> parameters = dense.parameters;
    for (const std::int64_t proposal : parameters.at(0).values) {
      const auto candidate = dense.generate({"dense", {{"proposal", proposal}}}, problem, packed);
      ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
      CompiledCandidate loaded = loaded_candidate(*candidate);
      for (std::size_t i = 0; i < loaded.kernels.size(); ++i) {
        const auto compiled =
            compiler_->compile(candidate->kernels[i], fmt::format("sm_{}", problem.device.compute_capability));
        ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
        loaded.kernels[i].cubin = compiled->cubin;
      }
      const auto verification = worker_->call(VerifyCall{loaded});
      if (!verification.ok()) {
        EXPECT_THAT(verification.status().message(), testing::HasSubstr("proposes"));
        EXPECT_GT(proposal, 0);
        continue;
      }
      EXPECT_TRUE(verification->ok) << "proposal " << proposal << ": " << verification->reason;
      EXPECT_LE(verification->norm_error, norm_error_limit(c.type));
      const auto timing = worker_->call(TimeCall{{loaded}, {}, {}});
      ASSERT_TRUE(timing.ok()) << timing.status().to_string();
      fmt::print("  {} N={}: proposal {} takes {:.2f} us, error/bound {:.3f}\n", spec.name(), c.tokens, proposal,
                 timing->front().median_us, verification->max_error_over_bound);
      ++right;
    }
    EXPECT_GT(right, 0);
  }
}

// The dense weight as it is serves operators of its transpose as well.
TEST_P(GpuWorkerCaseTest, DenseServesTheTransposedWeight) {
  const Case& c = GetParam();
  const CsrMatrix matrix = drawn_weight(1001, 2048, 0.1, kSeed);
  OperatorSpec spec = sample_spec(matrix, c.type, c.layout, "relu");
  spec.kind = OperatorKind::kSpmmTransposed;
  const PackedWeight packed = *pack("dense", multiplied(spec.kind, matrix), c.type);
  const auto candidate = dense_family().generate({"dense", {}}, {spec, c.tokens, worker_->properties()}, packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  ASSERT_TRUE(candidate->kernels.empty());
  const Status weight = worker_->set_weight(matrix, spec);
  ASSERT_TRUE(weight.ok()) << weight.to_string();
  const Status packing = worker_->add_packing(packed);
  ASSERT_TRUE(packing.ok()) << packing.to_string();
  const Status tokens = worker_->call(TokensCall{c.tokens, kSeed});
  ASSERT_TRUE(tokens.ok()) << tokens.to_string();
  const auto verification = worker_->call(VerifyCall{loaded_candidate(*candidate)});
  ASSERT_TRUE(verification.ok()) << verification.status().to_string();
  EXPECT_TRUE(verification->ok) << verification->reason;
}

// Outputs are compared on the GPU where they are many, and on the host where they are few.
TEST_P(GpuWorkerCaseTest, TheGradientOfTheWeightIsRightAndTimed) {
  const Case& c = GetParam();
  for (const double density : {0.02, 0.15}) {
    const CsrMatrix matrix = drawn_weight(1001, 2048, density, kSeed);
    Problem problem{
        {.type = c.type, .layout = c.layout, .epilogue = {.beta = density > 0.1}, .kind = OperatorKind::kSddmm},
        c.tokens,
        worker_->properties()};
    problem.spec.set_weight(matrix.rows, matrix.cols, matrix.nnz());
    const Status weight = worker_->set_weight(matrix, problem.spec);
    ASSERT_TRUE(weight.ok()) << weight.to_string();
    const auto candidates = ranked_candidates(problem, matrix, 3, compiler_.get(), *worker_);
    ASSERT_TRUE(candidates.ok()) << candidates.status().to_string();
    const Status tokens = worker_->call(TokensCall{c.tokens, kSeed});
    ASSERT_TRUE(tokens.ok()) << tokens.to_string();
    for (const CompiledCandidate& candidate : *candidates) {
      const auto verification = worker_->call(VerifyCall{candidate});
      ASSERT_TRUE(verification.ok()) << verification.status().to_string();
      EXPECT_TRUE(verification->ok) << verification->reason;
    }
    const auto timing = worker_->call(TimeCall{{candidates->front()}, {}, {}});
    ASSERT_TRUE(timing.ok()) << timing.status().to_string();
    EXPECT_GT(timing->front().median_us, 0);
    const auto dense = worker_->call(VendorCall{"cusparse", {}});
    ASSERT_TRUE(dense.ok()) << dense.status().to_string();
    EXPECT_FALSE(dense->supported);
  }
}

// Kernels that generate no right output.
class GpuWorkerFaultTest : public GpuWorkerTest {
 protected:
  // What verifying a kernel of this body ends with.
  Status verified(const std::string& body, std::int64_t run_limit_ms = 0) {
    KernelSource source;
    source.name = "faults";
    source.source = "extern \"C\" __global__ void faults(float* y) { " + body + " }\n";
    const auto compiled = compiler_->compile(source, fmt::format("sm_{}", worker_->properties().compute_capability));
    SPARSMITH_RETURN_IF_ERROR(compiled.status());
    PlanStep step;
    step.kernel = "faults";
    step.arguments = {operand("y")};
    const CompiledCandidate faulty{
        {.steps = {step}, .workspace_bytes = 0}, "none", {{"faults", "", compiled->cubin, 0}}};
    PackedWeight none;
    none.packing = "none";
    none.rows = matrix_.rows;
    none.cols = matrix_.cols;
    SPARSMITH_RETURN_IF_ERROR(worker_->set_weight(matrix_, spec_));
    SPARSMITH_RETURN_IF_ERROR(worker_->add_packing(none));
    SPARSMITH_RETURN_IF_ERROR(worker_->call(TokensCall{1, kSeed}));
    return worker_->call(VerifyCall{faulty, run_limit_ms}).status();
  }
  void expect_that_only_the_worker_is_lost() {
    EXPECT_EQ(worker_->call(TokensCall{1, kSeed}).code(), StatusCode::kDeviceError);
    const auto next = Worker::start({.device = "cuda:0", .program = ""});
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    EXPECT_TRUE((*next)->set_weight(matrix_, spec_).ok());
  }

  const CsrMatrix matrix_ = drawn_weight(64, 64, 0.2, kSeed);
  const OperatorSpec spec_ = sample_spec(matrix_, DataType::kFloat32, Layout::kTokenMajor);
};

TEST_F(GpuWorkerFaultTest, WhatAKernelDoesToItsWeightIsSeenAndUndone) {
  PackedWeight packed;
  packed.packing = "sample";
  packed.rows = matrix_.rows;
  packed.cols = matrix_.cols;
  packed.arrays.push_back({"values", DataType::kFloat32, std::vector<std::byte>(100'000 * 4, std::byte{0x11})});
  ASSERT_TRUE(worker_->set_weight(matrix_, spec_).ok());
  ASSERT_TRUE(worker_->add_packing(packed).ok());
  ASSERT_TRUE(worker_->call(TokensCall{1, kSeed}).ok());
  struct Write {
    const char* place;
    const char* found;
  };
  int kernels = 0;
  for (const Write& write : {Write{"77777", "changed packed array values"}, Write{"0", "changed packed array values"},
                             Write{"-1", "wrote outside of packed array values"},
                             Write{"100000", "wrote outside of packed array values"}, Write{"99999", "changed"}}) {
    KernelSource source;
    source.name = fmt::format("writes_{}", ++kernels);
    source.source =
        fmt::format("extern \"C\" __global__ void {}(float* w) {{ w[{}] = 3; }}\n", source.name, write.place);
    const auto compiled = compiler_->compile(source, fmt::format("sm_{}", worker_->properties().compute_capability));
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
    PlanStep step;
    step.kernel = source.name;
    step.arguments = {{PlanArgument::Kind::kPacked, "values", 0}};
    const auto found = worker_->call(
        VerifyCall{{{.steps = {step}, .workspace_bytes = 0}, "sample", {{source.name, "", compiled->cubin, 0}}}});
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_FALSE(found->ok);
    EXPECT_THAT(found->reason, testing::HasSubstr(write.found)) << write.place;
  }
  KernelSource nothing;
  nothing.name = "nothing";
  nothing.source = "extern \"C\" __global__ void nothing(float*) {}\n";
  const auto compiled = compiler_->compile(nothing, fmt::format("sm_{}", worker_->properties().compute_capability));
  ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  PlanStep step;
  step.kernel = "nothing";
  step.arguments = {{PlanArgument::Kind::kPacked, "values", 0}};
  const auto sound = worker_->call(
      VerifyCall{{{.steps = {step}, .workspace_bytes = 0}, "sample", {{"nothing", "", compiled->cubin, 0}}}});
  ASSERT_TRUE(sound.ok()) << sound.status().to_string();
  EXPECT_THAT(sound->reason, testing::Not(testing::HasSubstr("packed array"))) << "what was done to it was undone";
}

// 2^17 outputs: they are compared on the GPU, where inputs are restored as well.
TEST_F(GpuWorkerTest, OfLargeProblemsChecksStayOnTheGpu) {
  const CsrMatrix matrix = drawn_weight(1024, 512, 0.1, kSeed);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      SCOPED_TRACE(fmt::format("{} {}", short_name(type), layout_name(layout)));
      const Problem problem{.spec = sample_spec(matrix, type, layout, "bias+beta+residual"),
                            .tokens = 160,
                            .device = worker_->properties()};
      ASSERT_TRUE(worker_->set_weight(matrix, problem.spec).ok());
      const auto candidates = ranked_candidates(problem, matrix, 2, compiler_.get(), *worker_);
      ASSERT_TRUE(candidates.ok()) << candidates.status().to_string();
      ASSERT_TRUE(worker_->call(TokensCall{160, kSeed}).ok());
      const auto right = worker_->call(VerifyCall{candidates->front()});
      ASSERT_TRUE(right.ok()) << right.status().to_string();
      EXPECT_TRUE(right->ok) << right->reason;
      EXPECT_GT(right->norm_error, 0);

      struct Fault {
        const char* body;
        const char* found;
      };
      int kernels = 0;
      for (const Fault& fault : {Fault{"x[5] = 0;", "changed x"},
                                 {"bias[1023] = 0;", "changed bias"},
                                 {"residual[77777] = 0;", "changed residual"},
                                 {"x[-1] = 0;", "wrote outside of x"},
                                 {"y[1024 * 160] = 0;", "wrote outside of y"},
                                 {"y[100000] = ~0;", "1 of 163840 outputs are wrong"},
                                 {"y[100000] = ~0; y[5] = ~0;", "2 of 163840 outputs are wrong"}}) {
        KernelSource source;
        source.name = fmt::format("behind_{}_{}_{}", short_name(type), layout_name(layout), ++kernels);
        const char* const element = type == DataType::kFloat32 ? "unsigned" : "unsigned short";
        source.source =
            fmt::format("extern \"C\" __global__ void {0}({1}* x, {1}* y, {1}* bias, {1}* residual) {{ {2} }}\n",
                        source.name, element, fault.body);
        const auto compiled =
            compiler_->compile(source, fmt::format("sm_{}", worker_->properties().compute_capability));
        ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
        CompiledCandidate faulty = candidates->front();
        PlanStep step;
        step.kernel = source.name;
        step.arguments = {operand("x"), operand("y"), operand("bias"), operand("residual")};
        faulty.plan.steps.push_back(step);
        faulty.kernels.push_back({source.name, "", compiled->cubin, 0});
        const auto found = worker_->call(VerifyCall{faulty});
        ASSERT_TRUE(found.ok()) << found.status().to_string();
        EXPECT_FALSE(found->ok);
        EXPECT_THAT(found->reason, testing::HasSubstr(fault.found)) << fault.body;
        EXPECT_TRUE(worker_->call(VerifyCall{candidates->front()})->ok) << "after " << fault.body;
      }
    }
  }
}

TEST_F(GpuWorkerFaultTest, AKernelThatFaultsEndsTheWorkerAlone) {
  const Status status = verified("y[1ll << 44] = 1;");
  EXPECT_EQ(status.code(), StatusCode::kDeviceError) << status.to_string();
  expect_that_only_the_worker_is_lost();
}

TEST_F(GpuWorkerFaultTest, AKernelThatNeverEndsIsGivenUpLongBeforeItsCall) {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = verified("for (;;) asm volatile(\"nanosleep.u32 1000;\");", /*run_limit_ms=*/2000);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_THAT(status.message(), testing::HasSubstr("the device gave no answer within 2 s"));
  expect_that_only_the_worker_is_lost();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

}  // namespace
}  // namespace sparsmith::test
