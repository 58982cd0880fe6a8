#include "tuner/worker_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_executor.h"
#include "tests/support/sample_weight.h"

namespace sparsmith {
namespace {

Status place(WorkerServer& server, const PackedWeight& packed) {
  SPARSMITH_RETURN_IF_ERROR(server.handle(PackingCall{packed}).status());
  return server.handle(PlacePackingCall{packed.packing}).status();
}

class WorkerServerTest : public testing::TestWithParam<bool> {
 protected:
  explicit WorkerServerTest(bool is_emulator = GetParam()) : executor_(is_emulator), server_(executor_, nullptr) {}

  void start(const char* epilogue = "none", std::int64_t tokens = 3) {
    ASSERT_TRUE(server_.handle(WeightCall{matrix_, sample_spec(matrix_, epilogue)}).ok());
    ASSERT_TRUE(place(server_, sample_packing(matrix_)).ok());
    ASSERT_TRUE(server_.handle(TokensCall{tokens, 7}).ok());
  }
  CompiledCandidate candidate(const std::string& source) const {
    return {.plan = fake_plan("k", matrix_.rows), .packing = "sample", .kernels = {fake_kernel("k", source)}};
  }
  Verification verify(const std::string& source) {
    Result<WorkerReply> reply = server_.handle(VerifyCall{candidate(source)});
    EXPECT_TRUE(reply.ok()) << reply.status().to_string();
    return reply.ok() ? std::get<Verification>(*reply) : Verification{};
  }

  const CsrMatrix matrix_ = sample_weight(23, 40, 0.15, 11);
  FakeExecutor executor_;
  WorkerServer server_;
};

TEST_P(WorkerServerTest, ARightKernelPasses) {
  for (const char* epilogue : {"none", "bias", "beta", "bias+beta"}) {
    start(epilogue);
    const Verification verification = verify("csr");
    EXPECT_TRUE(verification.ok) << epilogue << ": " << verification.reason;
    EXPECT_LE(verification.max_error_over_bound, 1.0);
    EXPECT_GT(verification.max_error_over_bound, 0.0);
  }
}

TEST_P(WorkerServerTest, WrongKernelsAreCaughtAndHarmNoOther) {
  start();
  for (const auto& [source, reason] : {std::pair{"dropped", "outputs are wrong"},
                                       {"padded", "with Inf and NaN in X"},
                                       {"changes x", "changed x"},
                                       {"changes w", "changed packed array values"}}) {
    const Verification verification = verify(source);
    EXPECT_FALSE(verification.ok) << source;
    EXPECT_THAT(verification.reason, testing::HasSubstr(reason));
    EXPECT_TRUE(verify("csr").ok) << "after " << source;
  }
}

TEST_P(WorkerServerTest, WritesOutsideOfBuffersAreCaught) {
  if (GetParam()) GTEST_SKIP() << "the emulator itself sees these; there are no canaries";
  start();
  EXPECT_THAT(verify("past the end").reason, testing::HasSubstr("wrote outside of y"));
  EXPECT_THAT(verify("before").reason, testing::HasSubstr("wrote outside of the workspace"));
  EXPECT_TRUE(verify("csr").ok);
}

TEST_P(WorkerServerTest, AFaultIsTheCandidatesOnTheEmulatorAndTheDevicesOnAGpu) {
  start();
  const Result<WorkerReply> reply = server_.handle(VerifyCall{candidate("fault")});
  EXPECT_EQ(reply.ok(), GetParam());
  if (reply.ok()) {
    EXPECT_FALSE(std::get<Verification>(*reply).ok);
    EXPECT_THAT(std::get<Verification>(*reply).reason, testing::HasSubstr("reads outside"));
    EXPECT_TRUE(verify("csr").ok);
  } else {
    EXPECT_EQ(reply.status().code(), StatusCode::kDeviceError);
  }
}

TEST_P(WorkerServerTest, AWorkspaceThatDoesNotFitHarmsNoOther) {
  start();
  CompiledCandidate greedy = candidate("csr");
  greedy.plan.workspace_bytes = std::int64_t{1} << 62;
  EXPECT_EQ(server_.handle(VerifyCall{greedy}).status().code(), StatusCode::kOutOfMemory);
  CompiledCandidate modest = candidate(GetParam() ? "csr" : "before");
  modest.plan.workspace_bytes = 0;
  const Result<WorkerReply> reply = server_.handle(VerifyCall{modest});
  ASSERT_TRUE(reply.ok()) << reply.status().to_string();
  EXPECT_EQ(std::get<Verification>(*reply).ok, GetParam()) << "its workspace has guards as any other";
}

TEST_P(WorkerServerTest, RequestsOutOfOrderAreErrors) {
  EXPECT_EQ(server_.handle(TokensCall{1, 1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(server_.handle(PackingCall{sample_packing(matrix_)}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(server_.handle(PlacePackingCall{"sample"}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(server_.handle(VerifyCall{candidate("csr")}).status().code(), StatusCode::kInvalidArgument);
  start();
  EXPECT_EQ(server_.handle(PlacePackingCall{"sample"}).status().code(), StatusCode::kInvalidArgument) << "it was";
  ASSERT_TRUE(server_.handle(PackingCall{sample_packing(matrix_)}).ok());
  EXPECT_EQ(server_.handle(PlacePackingCall{"another"}).status().code(), StatusCode::kInvalidArgument);
  CompiledCandidate other = candidate("csr");
  other.packing = "another";
  EXPECT_EQ(server_.handle(VerifyCall{other}).status().code(), StatusCode::kNotFound);
  PackedWeight wrong = sample_packing(matrix_);
  wrong.rows = 5;
  EXPECT_EQ(server_.handle(PackingCall{wrong}).status().code(), StatusCode::kInvalidArgument);
  CsrMatrix broken = matrix_;
  broken.column_indices[0] = 40;
  EXPECT_FALSE(server_.handle(WeightCall{broken, sample_spec(matrix_)}).ok());
}

TEST_P(WorkerServerTest, NothingIsTimedWithoutATimingDevice) {
  start();
  EXPECT_EQ(server_.handle(TimeCall{{candidate("csr")}, {}, {}}).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(server_.handle(VendorCall{"cublas", {}}).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(server_.handle(SpeedsCall{}).status().code(), StatusCode::kUnsupported);
}

TEST_P(WorkerServerTest, ANewWeightFreesTheMemoryOfTheLast) {
  start();
  ASSERT_TRUE(verify("csr").ok);
  const std::size_t before = executor_.live_buffers();
  start();
  ASSERT_TRUE(verify("csr").ok);
  EXPECT_EQ(executor_.live_buffers(), before);
}

INSTANTIATE_TEST_SUITE_P(Devices, WorkerServerTest, testing::Bool(),
                         [](const auto& device) { return device.param ? "emulator" : "gpu"; });

// Gives times that it was told.
class FakeTimingDevice : public TimingDevice {
 public:
  Result<DeviceSpeeds> measure_speeds(bool with_probe) override {
    return DeviceSpeeds{4e12, with_probe ? 5e12 : 0, with_probe ? 1.5 : 0};
  }
  void set_problem(const ReferenceProblem* problem, PlanVerifier*, bool same_weight) override {
    problem_ = problem;
    same_weight_ = same_weight;
  }
  Result<std::vector<Timing>> time(const std::vector<TimedCandidate>& candidates,
                                   const std::vector<std::string>& vendors, const TimingPolicy&) override {
    workspace_ = candidates.front().bindings.workspace;
    return std::vector<Timing>(candidates.size() + vendors.size());
  }
  Result<VendorTiming> vendor(const std::string& name, const TimingPolicy&, const std::vector<std::string>&) override {
    VendorTiming timing;
    timing.name = name;
    return timing;
  }
  const ReferenceProblem* problem_ = nullptr;
  bool same_weight_ = false;
  DeviceAddress workspace_ = 0;
};

TEST(WorkerServerTimingTest, OnlyVerifiedCandidatesAreTimed) {
  const CsrMatrix matrix = sample_weight(23, 40, 0.15, 11);
  FakeExecutor executor(false);
  FakeTimingDevice timing;
  WorkerServer server(executor, &timing);
  ASSERT_TRUE(server.handle(WeightCall{matrix, sample_spec(matrix)}).ok());
  ASSERT_TRUE(place(server, sample_packing(matrix)).ok());
  ASSERT_TRUE(server.handle(TokensCall{2, 7}).ok());
  EXPECT_NE(timing.problem_, nullptr);
  EXPECT_FALSE(timing.same_weight_);

  const CompiledCandidate candidate{fake_plan("k", matrix.rows), "sample", {fake_kernel("k", "csr")}};
  EXPECT_EQ(server.handle(TimeCall{{candidate}, {}, {}}).status().code(), StatusCode::kInvalidArgument);
  const TimeCall unverified{{candidate}, {}, {}, true};
  EXPECT_TRUE(server.handle(unverified).ok()) << "asked for in so many words";
  EXPECT_EQ(server.handle(TimeCall{{candidate}, {}, {}}).status().code(), StatusCode::kInvalidArgument)
      << "which verifies nothing";
  ASSERT_TRUE(std::get<Verification>(server.handle(VerifyCall{candidate}).value()).ok);
  const Result<WorkerReply> timed = server.handle(TimeCall{{candidate, candidate}, {"cublas"}, {}});
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  EXPECT_EQ(std::get<std::vector<Timing>>(*timed).size(), 3U);
  EXPECT_NE(timing.workspace_, 0U);

  ASSERT_TRUE(server.handle(TokensCall{4, 7}).ok());
  EXPECT_TRUE(timing.same_weight_);
  EXPECT_FALSE(server.handle(TimeCall{{candidate}, {}, {}}).ok()) << "verified for another N";
  const auto memory = std::get<DeviceSpeeds>(server.handle(SpeedsCall{}).value());
  EXPECT_EQ(memory.memory_bandwidth, 4e12);
  EXPECT_EQ(memory.l2_bandwidth, 0);
  const auto all = std::get<DeviceSpeeds>(server.handle(SpeedsCall{KernelImage{"probe", "text", {}, 0}}).value());
  EXPECT_EQ(all.l2_bandwidth, 5e12);
  EXPECT_EQ(all.launch_us, 1.5);
  EXPECT_EQ(std::get<VendorTiming>(server.handle(VendorCall{"cusparse", {}}).value()).name, "cusparse");
}

}  // namespace
}  // namespace sparsmith
