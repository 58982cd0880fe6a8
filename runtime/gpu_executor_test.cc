// Runs on the fake driver: what is checked is what reaches the driver, not what a GPU makes of it.
#include "runtime/gpu_executor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "tests/support/fake_cuda_driver.h"

namespace sparsmith {
namespace {

using Kind = PlanArgument::Kind;

class GpuExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda() = FakeCudaState();
    auto executor = GpuExecutor::create(0);
    ASSERT_TRUE(executor.ok()) << executor.status().to_string();
    executor_ = std::move(executor).value();
  }
  void TearDown() override {
    executor_.reset();
    EXPECT_EQ(fake_cuda().live_buffers, 0);
    EXPECT_EQ(fake_cuda().live_modules, 0);
  }

  void load(const std::string& name, std::int64_t max_shared_bytes = 0, const std::vector<int>& parameters = {}) {
    ASSERT_TRUE(executor_->load({name, "", fake_cubin(name, parameters), max_shared_bytes}).ok());
  }

  DeviceAddress upload(const auto& values) {
    const DeviceAddress address = *executor_->allocate(sizeof(values));
    EXPECT_TRUE(executor_->write(address, std::as_bytes(std::span(values))).ok());
    return address;
  }

  std::unique_ptr<GpuExecutor> executor_;
};

PlanStep launch(const std::string& kernel) {
  PlanStep step;
  step.kernel = kernel;
  step.block = {32, 1, 1};
  return step;
}

TEST_F(GpuExecutorTest, AllocatesPoisonedMemory) {
  const auto address = executor_->allocate(16);
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address % 256, 0U);
  std::array<float, 4> values{};
  ASSERT_TRUE(executor_->read(std::as_writable_bytes(std::span(values)), *address).ok());
  for (const float value : values) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(executor_->free(*address).ok());
  EXPECT_EQ(executor_->free(*address).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(executor_->allocate(std::size_t{1} << 40).status().code(), StatusCode::kOutOfMemory);
}

// What is timed is what the plan says: no other algorithm takes its place.
TEST_F(GpuExecutorTest, AProposalThatTheLibraryDoesNotMakeIsAnError) {
  const auto memory = executor_->allocate(256);
  ASSERT_TRUE(memory.ok());
  const OperatorSpec spec{.rows = 2, .cols = 3, .type = DataType::kFloat32};
  LaunchBindings bindings;
  bindings.packed = {{"values", *memory}};
  bindings.operands = {{"x", *memory + 64}, {"y", *memory + 128}};
  bindings.variables = {.n = 2, .strides = {{"x", 3}, {"y", 2}}};
  bindings.spec = &spec;
  LaunchPlan plan{.steps = {matmul_step("values", std::nullopt)}};
  plan.steps[0].proposal = 1;
  EXPECT_TRUE(executor_->run(plan, bindings).ok()) << executor_->run(plan, bindings).to_string();
  plan.steps[0].proposal = 2;
  EXPECT_EQ(executor_->run(plan, bindings).code(), StatusCode::kUnsupported);
  plan.steps[0].proposed_for = 4;
  EXPECT_TRUE(executor_->run(plan, bindings).ok());
  EXPECT_TRUE(executor_->free(*memory).ok());
}

TEST_F(GpuExecutorTest, CopiesFromOnePlaceToAnother) {
  const auto from = executor_->allocate(16);
  const auto to = executor_->allocate(16);
  ASSERT_TRUE(from.ok() && to.ok());
  const std::array<float, 4> written = {1, 2, 3, 4};
  ASSERT_TRUE(executor_->write(*from, std::as_bytes(std::span(written))).ok());
  ASSERT_TRUE(executor_->copy(*to, *from + 4, 8).ok());
  ASSERT_TRUE(executor_->copy(*to, 0, 0).ok());
  std::array<float, 4> values{};
  ASSERT_TRUE(executor_->read(std::as_writable_bytes(std::span(values)), *to).ok());
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], 3);
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST_F(GpuExecutorTest, FreedMemoryIsTakenAgain) {
  constexpr std::size_t kBytes = 5'000'000;
  const auto first = executor_->allocate(kBytes);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(executor_->write(*first, std::vector<std::byte>(kBytes)).ok());
  ASSERT_TRUE(executor_->free(*first).ok());
  const auto again = executor_->allocate(kBytes + 1000);  // as many pages
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *first);
  EXPECT_EQ(fake_cuda().live_buffers, 1);
  std::array<std::byte, 4> bytes{};
  ASSERT_TRUE(executor_->read(bytes, *again).ok());
  EXPECT_EQ(bytes[0], std::byte{0xFF}) << "as poisoned as any other";
  const auto other = executor_->allocate(2 * kBytes);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(fake_cuda().live_buffers, 2);

  ASSERT_TRUE(executor_->free(*again).ok());
  fake_cuda().failing_allocations = 1;
  const auto small = executor_->allocate(100);
  EXPECT_TRUE(small.ok()) << "what was spare makes room";
  EXPECT_EQ(fake_cuda().live_buffers, 2);
  fake_cuda().failing_allocations = 1;
  EXPECT_EQ(executor_->allocate(100).status().code(), StatusCode::kOutOfMemory) << "nothing is spare";
  EXPECT_EQ(executor_->free(*again).code(), StatusCode::kInvalidArgument) << "it was freed before";
}

TEST_F(GpuExecutorTest, NoMoreThanTwoGigabytesAreSpare) {
  fake_cuda().set_memory = false;
  std::vector<DeviceAddress> buffers;
  for (int i = 0; i < 4; ++i) {
    const auto buffer = executor_->allocate(std::size_t{600} << 20);
    ASSERT_TRUE(buffer.ok()) << buffer.status().to_string();
    buffers.push_back(*buffer);
  }
  for (const DeviceAddress buffer : buffers) ASSERT_TRUE(executor_->free(buffer).ok());
  EXPECT_EQ(fake_cuda().live_buffers, 3);
}

TEST_F(GpuExecutorTest, ZeroBytesStillHaveAnAddressOfTheirOwn) {
  const auto a = executor_->allocate(0);
  const auto b = executor_->allocate(0);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(*a, *b);
}

TEST_F(GpuExecutorTest, LaunchesWithTheSizesAndAttributesOfThePlan) {
  load("k", 100'000);
  EXPECT_EQ(fake_cuda().allowed_shared_bytes, 100'000);
  PlanStep step = launch("k");
  step.grid = {*IntegerExpression::parse("ceil_div(n, 8) * 132"), 2, 3};
  step.block = {64, 2, 1};
  step.cluster = {2, 1, 3};
  step.shared_bytes = *IntegerExpression::parse("n * 1024");
  step.programmatic_launch = true;
  LaunchBindings bindings;
  bindings.variables.n = 9;
  ASSERT_TRUE(executor_->run({{step}, 0}, bindings).ok());
  ASSERT_EQ(fake_cuda().launches.size(), 1U);
  const FakeCudaState::Launch& made = fake_cuda().launches[0];
  EXPECT_EQ(made.kernel, "k");
  EXPECT_EQ(made.grid, (std::array<unsigned, 3>{264, 2, 3}));
  EXPECT_EQ(made.block, (std::array<unsigned, 3>{64, 2, 1}));
  EXPECT_EQ(made.cluster, (std::array<unsigned, 3>{2, 1, 3}));
  EXPECT_EQ(made.shared_bytes, 9216U);
  EXPECT_TRUE(made.programmatic);
  ASSERT_TRUE(executor_->run({{launch("k")}, 0}, {}).ok());  // one block, where the plan says nothing else
  EXPECT_EQ(fake_cuda().launches.back().grid, (std::array<unsigned, 3>{1, 1, 1}));
}

TEST_F(GpuExecutorTest, ARunThatTakesLongerThanItMayIsGivenUp) {
  load("k");
  executor_->limit_runs(std::chrono::milliseconds(20));
  const LaunchPlan plan{{launch("k")}, 0};
  fake_cuda().unready_queries = 3;
  EXPECT_TRUE(executor_->run(plan, {}).ok());
  EXPECT_EQ(fake_cuda().unready_queries, 0);
  fake_cuda().unready_queries = std::int64_t{1} << 40;
  const Status given_up = executor_->run(plan, {});
  EXPECT_EQ(given_up.code(), StatusCode::kDeviceError);
  EXPECT_NE(given_up.message().find("running k: the device gave no answer within 0.02 s"), std::string::npos)
      << given_up.message();
  executor_->limit_runs(std::chrono::milliseconds(0));
  EXPECT_TRUE(executor_->run(plan, {}).ok()) << "without a limit nobody asks";
}

TEST_F(GpuExecutorTest, LaunchesPlainlyOnDevicesThatDoNotKnowProgrammaticLaunches) {
  fake_cuda().compute_capability = 80;
  auto older = GpuExecutor::create(0);
  fake_cuda().compute_capability = 90;
  ASSERT_TRUE(older.ok()) << older.status().to_string();
  ASSERT_TRUE((*older)->load({"k", "", fake_cubin("k"), 0}).ok());
  PlanStep step = launch("k");
  step.programmatic_launch = true;
  ASSERT_TRUE((*older)->run({{step}, 0}, {}).ok());
  ASSERT_EQ(fake_cuda().launches.size(), 1U);
  EXPECT_FALSE(fake_cuda().launches[0].programmatic);
}

TEST_F(GpuExecutorTest, MultipliesADenseWeightIntoTheWorkspace) {
  // W = [[1, 0, 2], [0, 3, 0]]; the second weight is another copy, as timing rotates over them.
  OperatorSpec spec;
  spec.rows = 2;
  spec.cols = 3;
  LaunchBindings bindings;
  bindings.workspace = *executor_->allocate(4 * sizeof(float));
  bindings.spec = &spec;
  const LaunchPlan plan{.steps = {matmul_step("values", IntegerExpression(0))}, .workspace_bytes = 16};
  const auto product = [&] {
    const Status status = executor_->run(plan, bindings);
    EXPECT_TRUE(status.ok()) << status.to_string();
    std::array<float, 4> result{};
    EXPECT_TRUE(executor_->read(std::as_writable_bytes(std::span(result)), bindings.workspace).ok());
    return result;
  };
  EXPECT_EQ(executor_->run(plan, bindings).code(), StatusCode::kNotFound);
  bindings.packed = {{"values", upload(std::array{1.0F, 0.0F, 2.0F, 0.0F, 3.0F, 0.0F})}};
  bindings.operands.set("x", upload(std::array{1.0F, 10.0F, 100.0F, -1.0F, 2.0F, 20.0F, 200.0F, -1.0F}));
  bindings.scalars.set("alpha", 5.0F);  // the epilogue's
  bindings.variables = {.n = 2, .strides = {{"x", 4}, {"y", 9}}};
  EXPECT_EQ(product(), (std::array{201.0F, 30.0F, 402.0F, 60.0F}));
  bindings.packed = {{"values", upload(std::array{0.0F, 1.0F, 0.0F, 1.0F, 0.0F, 0.0F})}};
  EXPECT_EQ(product(), (std::array{10.0F, 1.0F, 20.0F, 2.0F}));
  // Feature-major: X[K][N], and the product [M][N].
  spec.layout = Layout::kFeatureMajor;
  bindings.operands.set("x", upload(std::array{1.0F, 2.0F, 10.0F, 20.0F, 100.0F, 200.0F}));
  bindings.variables = {.n = 2, .strides = {{"x", 2}, {"y", 9}}};
  EXPECT_EQ(product(), (std::array{10.0F, 20.0F, 1.0F, 2.0F}));
  // Where it does not fit, or lies where the library cannot write, nothing runs.
  const auto refused = [&](std::int64_t offset, std::int64_t bytes) {
    return executor_->run({.steps = {matmul_step("values", IntegerExpression(offset))}, .workspace_bytes = bytes},
                          bindings);
  };
  EXPECT_THAT(refused(0, 15).message(), testing::HasSubstr("does not fit a workspace of 15 bytes"));
  EXPECT_EQ(refused(16, 31).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(-16, 64).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(8, 64).code(), StatusCode::kInvalidArgument);
  bindings.variables.strides.set("x", 1);  // less than a line: the library refuses it
  EXPECT_THAT(executor_->run(plan, bindings).message(), testing::HasSubstr("describing a matrix"));
  bindings.spec = nullptr;
  EXPECT_EQ(executor_->run(plan, bindings).code(), StatusCode::kInternal);
}

TEST_F(GpuExecutorTest, MultipliesByAWeightInTheWorkspace) {
  OperatorSpec spec;
  spec.rows = 2;
  spec.cols = 3;
  LaunchBindings bindings;
  bindings.spec = &spec;
  bindings.variables = {.n = 2, .strides = {{"x", 3}, {"y", 2}}};
  // From byte 16 on.
  bindings.workspace = upload(std::array{0.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F, 2.0F, 0.0F, 3.0F, 0.0F, 0.0F, 0.0F});
  bindings.operands.set("x", upload(std::array{1.0F, 10.0F, 100.0F, 2.0F, 20.0F, 200.0F}));
  const DeviceAddress y = *executor_->allocate(16);
  bindings.operands.set("y", y);
  const auto run = [&](std::int64_t offset, std::int64_t bytes) {
    return executor_->run({.steps = {matmul_by_workspace(offset)}, .workspace_bytes = bytes}, bindings);
  };
  const Status status = run(16, 48);
  EXPECT_TRUE(status.ok()) << status.to_string();
  std::array<float, 4> result{};
  EXPECT_TRUE(executor_->read(std::as_writable_bytes(std::span(result)), y).ok());
  EXPECT_EQ(result, (std::array{201.0F, 30.0F, 402.0F, 60.0F}));
  EXPECT_THAT(run(16, 39).message(), testing::HasSubstr("a weight of 2 x 3, 4 bytes each, does not fit a workspace"));
  EXPECT_EQ(run(8, 48).code(), StatusCode::kInvalidArgument) << "not aligned";
  EXPECT_EQ(run(-16, 48).code(), StatusCode::kInvalidArgument);
  bindings.workspace = 0;
  EXPECT_THAT(run(16, 48).message(), testing::HasSubstr("it needs a workspace"));
}

TEST_F(GpuExecutorTest, ResolvesEveryKindOfArgument) {
  // W = [[1, 0], [2, 3]], two tokens, leading dimensions of 3 and 4.
  load("fake_csr", 0, kFakeCsrParameters);
  LaunchBindings bindings;
  bindings.packed = {{"segments", upload(std::array{0U, 1U, 1U, 2U})},
                     {"columns", upload(std::array{0, 0, 1})},
                     {"values", upload(std::array{1.0F, 2.0F, 3.0F})}};
  const DeviceAddress y_address = *executor_->allocate(8 * sizeof(float));
  const Facts facts = {{"rows", 2}};
  bindings.operands = {{"x", upload(std::array{1.0F, 10.0F, -1.0F, 2.0F, 20.0F, -1.0F})},
                       {"bias", upload(std::array{0.5F, 0.25F})},
                       {"y", y_address}};
  bindings.scalars.set("alpha", 2.0F);
  bindings.variables = {.n = 2, .strides = {{"x", 3}, {"y", 4}}, .facts = &facts};
  PlanStep step = launch("fake_csr");
  const auto formula = [](const char* text) { return *IntegerExpression::parse(text); };
  step.arguments = {{Kind::kPacked, "segments", 0},
                    {Kind::kPacked, "columns", 0},
                    {Kind::kPacked, "values", 0},
                    operand("x"),
                    operand("y"),
                    operand("bias"),
                    {Kind::kInt32, "", formula("fact.rows")},
                    {Kind::kInt32, "", formula("n")},
                    {Kind::kInt32, "", formula("ld.x")},
                    {Kind::kInt32, "", formula("ld.y")},
                    scalar("alpha")};
  const Status status = executor_->run({{step}, 0}, bindings);
  ASSERT_TRUE(status.ok()) << status.to_string();
  std::array<float, 8> y{};
  ASSERT_TRUE(executor_->read(std::as_writable_bytes(std::span(y)), y_address).ok());
  EXPECT_EQ(y[0], 2.5F);
  EXPECT_EQ(y[1], 64.25F);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[4], 4.5F);
  EXPECT_EQ(y[5], 128.25F);
}

TEST_F(GpuExecutorTest, ZeroesAndAddressesTheWorkspace) {
  load("fake_fill", 0, kFakeFillParameters);
  LaunchBindings bindings;
  bindings.workspace = *executor_->allocate(8);
  bindings.variables.n = 3;
  PlanStep zero;
  zero.kind = PlanStep::Kind::kZero;
  zero.zero_offset = 1;
  zero.zero_bytes = *IntegerExpression::parse("n * 2");
  PlanStep fill = launch("fake_fill");
  fill.arguments = {
      {Kind::kWorkspace, "", *IntegerExpression::parse("n")}, {Kind::kInt32, "", 2}, {Kind::kInt32, "", 7}};
  ASSERT_TRUE(executor_->run({{zero, fill}, 8}, bindings).ok());
  std::array<unsigned char, 8> bytes{};
  ASSERT_TRUE(executor_->read(std::as_writable_bytes(std::span(bytes)), bindings.workspace).ok());
  EXPECT_EQ(bytes, (std::array<unsigned char, 8>{0xFF, 0, 0, 7, 7, 0, 0, 0xFF}));
  EXPECT_EQ(executor_->run({{fill, zero}, 6}, bindings).code(), StatusCode::kInvalidArgument) << "byte 6 is zeroed";
  EXPECT_EQ(executor_->run({{fill}, 2}, bindings).code(), StatusCode::kInvalidArgument) << "byte 3 is an argument";
  EXPECT_EQ(fake_cuda().launches.size(), 1U);
  bindings.workspace = 0;
  EXPECT_EQ(executor_->run({{zero}, 8}, bindings).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(executor_->run({{fill}, 8}, bindings).code(), StatusCode::kInvalidArgument);
}

TEST_F(GpuExecutorTest, SkipsAnEmptyGrid) {
  load("k");
  PlanStep step = launch("k");
  step.grid = {*IntegerExpression::parse("n - 1"), 1, 1};
  EXPECT_TRUE(executor_->run({{step}, 0}, {}).ok());
  EXPECT_TRUE(fake_cuda().launches.empty());
}

TEST_F(GpuExecutorTest, RefusesWhatNoDeviceLaunches) {
  load("k", 1024);
  const auto code_of = [&](auto&& change) {
    PlanStep step = launch("k");
    change(step);
    return executor_->run({{step}, 0}, {}).code();
  };
  EXPECT_EQ(code_of([](PlanStep& step) { step.kernel = "missing"; }), StatusCode::kNotFound);
  EXPECT_EQ(code_of([](PlanStep& step) { step.grid[0] = std::int64_t{1} << 31; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](PlanStep& step) { step.grid[1] = 65'536; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](PlanStep& step) { step.grid[0] = -1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](PlanStep& step) { step.block[0] = 1025; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](PlanStep& step) { step.block = {64, 32, 1}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](PlanStep& step) { step.shared_bytes = 1025; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](PlanStep& step) { step.cluster[0] = 17; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](PlanStep& step) { step.cluster = {8, 4, 1}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of([](PlanStep& step) { step.cluster[0] = 2; }), StatusCode::kInvalidArgument) << "one block";
  EXPECT_EQ(code_of([](PlanStep& step) { step.arguments = {{Kind::kInt32, "", 1}}; }), StatusCode::kInvalidInput);
  load("one", 1024, {4});
  const auto with_argument = [](const PlanArgument& argument) {
    return [argument](PlanStep& step) {
      step.kernel = "one";
      step.arguments = {argument};
    };
  };
  EXPECT_EQ(code_of(with_argument({Kind::kInt32, "", std::int64_t{1} << 31})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(with_argument({Kind::kInt64, "", 1})), StatusCode::kInvalidInput) << "8 bytes for 4";
  load("pointer", 1024, {8});
  const auto missing = [](PlanStep& step) {
    step.kernel = "pointer", step.arguments = {{Kind::kPacked, "missing", 0}};
  };
  EXPECT_EQ(code_of(missing), StatusCode::kNotFound);
  EXPECT_EQ(code_of([](PlanStep& step) { step.kernel = "one"; }), StatusCode::kInvalidInput) << "no argument for one";
  EXPECT_TRUE(fake_cuda().launches.empty());
}

// By what the fake driver was asked for: address, elements, lines, bytes of a line.
TEST_F(GpuExecutorTest, DescribesOperandsToTheDriver) {
  load("mapped", 1024, {8, kTensorMapBytes, 4});
  PlanStep step;
  step.kernel = "mapped";
  step.arguments = {operand("x"), tensor_map("x", 70, {}), {Kind::kInt32, "", 7}};
  LaunchBindings bindings;
  bindings.variables = {.n = 5, .strides = {{"x", 72}}};
  const auto run_at = [&](DeviceAddress address) {
    bindings.operands = {{"x", address}};
    const Status status = executor_->run({{step}, 0}, bindings);
    EXPECT_TRUE(status.ok()) << status.to_string();
    std::array<std::uint64_t, 4> asked{};
    std::memcpy(asked.data(), fake_cuda().launches.back().parameters.at(1).data(), sizeof(asked));
    return asked;
  };
  EXPECT_EQ(run_at(4096), (std::array<std::uint64_t, 4>{4096, 70, 5, 144}));
  EXPECT_EQ(run_at(4098), (std::array<std::uint64_t, 4>{})) << "not aligned";
  bindings.variables.strides = {{"x", 73}};
  EXPECT_EQ(run_at(4096), (std::array<std::uint64_t, 4>{})) << "lines are not aligned";
  bindings.variables.strides = {};
  EXPECT_EQ(executor_->run({{step}, 0}, bindings).code(), StatusCode::kInvalidArgument);
}

TEST_F(GpuExecutorTest, ADeviceErrorNamesTheKernel) {
  load("k");
  fake_cuda().fail_launches_with = 700;
  const Status status = executor_->run({{launch("k")}, 0}, {});
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_NE(status.message().find("kernel k"), std::string::npos) << status.message();
}

TEST_F(GpuExecutorTest, LoadsAKernelOnceAndReplacesAnother) {
  load("k");
  load("k");
  EXPECT_EQ(fake_cuda().live_modules, 1);
  ASSERT_TRUE(executor_->load({"k", "", fake_cubin("k", {}, 1), 0}).ok());
  EXPECT_EQ(fake_cuda().live_modules, 1);
  EXPECT_EQ(executor_->load({"k", "source alone", {}, 0}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(executor_->load({"k", "", fake_cubin("k"), 1 << 20}).code(), StatusCode::kUnsupported);
}

// Kernels of one name differ in the shared memory that their weights need; graphs hold those that came first.
TEST_F(GpuExecutorTest, MoreSharedMemoryLeavesAKernelWhereItIs) {
  load("k", 50'000);
  const std::int64_t loaded = fake_cuda().modules_loaded;
  load("k", 60'000);
  EXPECT_EQ(fake_cuda().allowed_shared_bytes, 60'000);
  load("k", 1024);
  EXPECT_EQ(fake_cuda().allowed_shared_bytes, 60'000);
  EXPECT_EQ(fake_cuda().modules_loaded, loaded);
  PlanStep step = launch("k");
  step.shared_bytes = 60'000;
  EXPECT_TRUE(executor_->run({{step}, 0}, {}).ok());
}

TEST_F(GpuExecutorTest, RefusesADamagedCubin) {
  std::vector<std::byte> cubin = fake_cubin("k");
  cubin.resize(63);
  EXPECT_EQ(executor_->load({"k", "", cubin, 0}).code(), StatusCode::kInvalidInput);
  cubin = fake_cubin("k");
  cubin[0] = std::byte{0};
  EXPECT_EQ(executor_->load({"k", "", cubin, 0}).code(), StatusCode::kInvalidInput);
  cubin = fake_cubin("k");
  cubin[60] = std::byte{5};  // sections, of which the last has no header
  EXPECT_EQ(executor_->load({"k", "", cubin, 0}).code(), StatusCode::kInvalidInput);
}

TEST_F(GpuExecutorTest, SaysWhichDevicesThereAre) {
  const auto missing = GpuExecutor::create(1);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNoDevice);
  EXPECT_EQ(executor_->properties().compute_capability, 90);
  EXPECT_EQ(executor_->properties().name, "fake GPU");
}

}  // namespace
}  // namespace sparsmith
