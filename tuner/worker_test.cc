#include "tuner/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/fake_executor.h"
#include "tests/support/sample_weight.h"
#include "tuner/process/child_process.h"

namespace sparsmith {
namespace {

// The client against a real child process, over the fake executor.
class WorkerTest : public testing::Test {
 protected:
  std::unique_ptr<Worker> start(std::chrono::seconds timeout = std::chrono::seconds(60)) {
    auto worker = Worker::start(
        {.device = "emulator", .timeout = timeout, .program = program_folder() + "/sparsmith_fake_worker"});
    EXPECT_TRUE(worker.ok()) << worker.status().to_string();
    return worker.ok() ? *std::move(worker) : nullptr;
  }
  std::unique_ptr<Worker> start_with_weight(std::chrono::seconds timeout = std::chrono::seconds(60)) {
    std::unique_ptr<Worker> worker = start(timeout);
    if (worker == nullptr) return nullptr;
    EXPECT_TRUE(worker->set_weight(matrix_, sample_spec(matrix_)).ok());
    EXPECT_TRUE(worker->add_packing(sample_packing(matrix_)).ok());
    const Status tokens = worker->call(TokensCall{3, 5});
    EXPECT_TRUE(tokens.ok()) << tokens.to_string();
    return worker;
  }
  CompiledCandidate candidate(const std::string& source) const {
    return {.plan = fake_plan("k", matrix_.rows), .packing = "sample", .kernels = {fake_kernel("k", source)}};
  }
  const CsrMatrix matrix_ = sample_weight(23, 40, 0.15, 11);
};

TEST_F(WorkerTest, VerifiesInAnotherProcess) {
  const auto worker = start_with_weight();
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->properties().name, "fake device");
  EXPECT_EQ(worker->properties().sm_count, typical_device(90).sm_count);
  const auto right = worker->call(VerifyCall{candidate("csr")});
  ASSERT_TRUE(right.ok()) << right.status().to_string();
  EXPECT_TRUE(right->ok) << right->reason;
  const auto wrong = worker->call(VerifyCall{candidate("dropped")});
  ASSERT_TRUE(wrong.ok()) << wrong.status().to_string();
  EXPECT_FALSE(wrong->ok);
  EXPECT_EQ(worker->call(TimeCall{{candidate("csr")}, {}, {}}).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(worker->measure_speeds().status().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(worker->call(VerifyCall{candidate("csr")})->ok) << "errors that are answers do not end the worker";
}

TEST_F(WorkerTest, ACrashIsTheWorkersAndIsNamed) {
  const auto worker = start_with_weight();
  ASSERT_NE(worker, nullptr);
  const auto crashed = worker->call(VerifyCall{candidate("crash")});
  ASSERT_FALSE(crashed.ok());
  EXPECT_EQ(crashed.status().code(), StatusCode::kDeviceError);
  EXPECT_THAT(crashed.status().message(), testing::HasSubstr("verifying k"));
  EXPECT_THAT(crashed.status().message(), testing::AnyOf(testing::HasSubstr("Segmentation fault"),
                                                         testing::HasSubstr("exited with code")));  // under ASan
  EXPECT_EQ(worker->call(VerifyCall{candidate("csr")}).status().code(), StatusCode::kDeviceError);
  EXPECT_TRUE(start_with_weight()->call(VerifyCall{candidate("csr")})->ok);
}

TEST_F(WorkerTest, AKernelThatNeverEndsIsGivenUp) {
  const auto worker = start_with_weight(std::chrono::seconds(2));
  ASSERT_NE(worker, nullptr);
  const auto hung = worker->call(VerifyCall{candidate("hang")});
  ASSERT_FALSE(hung.ok());
  EXPECT_EQ(hung.status().code(), StatusCode::kDeviceError);
  EXPECT_THAT(hung.status().message(), testing::HasSubstr("no answer within 2 s"));
}

TEST_F(WorkerTest, ACandidateMayBeGivenLessTimeThanOthers) {
  const auto worker = start_with_weight(std::chrono::seconds(100));
  ASSERT_NE(worker, nullptr);
  constexpr std::chrono::milliseconds kLimit(500);
  EXPECT_TRUE(worker->call(VerifyCall{candidate("csr")}, kLimit)->ok);
  const auto begin = std::chrono::steady_clock::now();
  const auto hung = worker->call(VerifyCall{candidate("hang")}, kLimit);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50));
  EXPECT_THAT(hung.status().message(), testing::HasSubstr("no answer within 0.5 s"));
}

TEST_F(WorkerTest, LargeWeightsArriveQuickly) {
  const auto worker = start();
  ASSERT_NE(worker, nullptr);
  CsrMatrix empty;
  empty.rows = 8;
  empty.cols = 8;
  empty.row_offsets.assign(9, 0);
  ASSERT_TRUE(worker->set_weight(empty, sample_spec(empty)).ok());
  PackedWeight packed = sample_packing(empty);
  packed.arrays[2].bytes.resize(200 << 20);
  const auto begin = std::chrono::steady_clock::now();
  const Status sent = worker->add_packing(packed);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(sent.ok()) << sent.to_string();
  RecordProperty("seconds", std::to_string(seconds.count()));
  EXPECT_LT(seconds.count(), 30.0) << "a loaded machine takes a second or two";
}

TEST_F(WorkerTest, ManyWorkersComeAndGo) {
  for (int i = 0; i < 20; ++i) ASSERT_NE(start(), nullptr);
}

TEST(WorkerStartTest, SaysWhatIsWrong) {
  EXPECT_EQ(Worker::start({.device = "gpu", .program = ""}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Worker::start({.device = "cuda:x", .program = ""}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Worker::start({.device = "cuda:", .program = ""}).status().code(), StatusCode::kInvalidArgument);
  const auto missing = Worker::start({.device = "emulator", .program = "/nowhere/sparsmith-worker"});
  EXPECT_EQ(missing.status().code(), StatusCode::kNoDevice);
  EXPECT_THAT(missing.status().message(), testing::HasSubstr("/nowhere/sparsmith-worker"));
  const auto silent = Worker::start({.device = "emulator", .program = "/bin/true"});
  EXPECT_EQ(silent.status().code(), StatusCode::kDeviceError);
  EXPECT_THAT(silent.status().message(), testing::HasSubstr("exited with code 0"));
}

TEST(TimingPolicyTest, HasAName) {
  EXPECT_EQ(TimingPolicy{}.name(), "cold_weights");
  EXPECT_EQ(TimingPolicy{.cold_weights = false}.name(), "warm_weights");
  EXPECT_EQ(TimingPolicy{.programmatic = true}.name(), "cold_weights_programmatic");
  EXPECT_EQ((TimingPolicy{.programmatic = true, .layers = 64}).name(), "cold_weights_programmatic_64_layers");
}

}  // namespace
}  // namespace sparsmith
