// Runs on the fake driver and the fake cuBLASLt, in which device memory is host memory.
#include "sparsmith/tuned_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/temporary_directory.h"
#include "formats/csr.h"
#include "runtime/loaded_model.h"
#include "tests/support/fake_cuda_driver.h"
#include "tests/support/host_allocations.h"
#include "tests/support/tuned_model_fixture.h"

namespace sparsmith {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(TunedModelTest, RunsAnOperatorForAnyNumberOfTokens) {
  const Operator fc1 = op("fc/1");
  ASSERT_TRUE(
      fc1.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}, .tokens = 2}, nullptr)
          .ok());
  EXPECT_THAT(y_, ElementsAre(201.5F, 30.25F, 402.5F, 60.25F));
  ASSERT_TRUE(
      fc1.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}, .tokens = 1, .alpha = 2},
              nullptr)
          .ok());
  EXPECT_THAT(y_, ElementsAre(402.5F, 60.25F, 402.5F, 60.25F));
  y_.assign(4, -1);
  ASSERT_TRUE(fc1.run({.operands = {{"x", {nullptr}}, {"y", {nullptr}}}, .tokens = 0}, nullptr).ok());
  EXPECT_THAT(y_, ElementsAre(-1, -1, -1, -1));
}

TEST_F(TunedModelTest, StridesAndTheStreamReachTheKernel) {
  const Operator fc1 = op("fc/1");
  x_ = {1, 10, 100, -1, 2, 20, 200, -1};
  y_.assign(6, -1);
  auto* stream = reinterpret_cast<void*>(0x42);
  ASSERT_TRUE(
      fc1.run({.operands = {{"x", {x_.data(), 4}}, {"y", {y_.data(), 3}}, {"bias", {bias_.data()}}}, .tokens = 2},
              stream)
          .ok());
  EXPECT_THAT(y_, ElementsAre(201.5F, 30.25F, -1, 402.5F, 60.25F, -1));
  EXPECT_EQ(fake_cuda().launches.back().stream, stream);
}

TEST_F(TunedModelTest, TakesAWorkspaceOfTheSizeItSays) {
  const Operator fc2 = op("fc2");
  EXPECT_EQ(*fc2.workspace_bytes(3), 48U);
  EXPECT_FALSE(fc2.workspace_bytes(-1).ok());
  alignas(256) std::array<unsigned char, 64> workspace{};
  EXPECT_EQ(fc2.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}}, .tokens = 2}, nullptr).code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(
      fc2.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}}, .tokens = 2, .workspace = workspace.data()},
              nullptr)
          .ok());
  EXPECT_THAT(y_, ElementsAre(201, 30, 402, 60));
  EXPECT_EQ(std::count(workspace.begin(), workspace.end(), 1), 32);
  EXPECT_EQ(fake_cuda().launches.size(), 2U);
  EXPECT_EQ(
      fc2.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}}, .tokens = 2, .workspace = workspace.data() + 1},
              nullptr)
          .code(),
      StatusCode::kInvalidArgument);
}

TEST_F(TunedModelTest, NamesTheArgumentThatIsWrong) {
  const Operator fc1 = op("fc/1");
  const RunArguments good{.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}, .tokens = 2};
  ASSERT_TRUE(fc1.run(good, nullptr).ok());
  const std::size_t launched = fake_cuda().launches.size();
  const auto refuses = [&](const char* reason, auto&& change) {
    RunArguments arguments = good;
    change(arguments);
    const Status status = fc1.run(arguments, nullptr);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << reason;
    EXPECT_THAT(status.message(), HasSubstr(reason));
    EXPECT_THAT(status.message(), HasSubstr("fc/1"));
  };
  refuses("x is null", [](RunArguments& a) { a.operands.set("x", {}); });
  refuses("y is null", [](RunArguments& a) { a.operands.set("y", {}); });
  refuses("bias is null", [](RunArguments& a) { a.operands.set("bias", {}); });
  refuses("residual is given", [&](RunArguments& a) { a.operands.set("residual", {y_.data()}); });
  refuses("tokens = -1", [](RunArguments& a) { a.tokens = -1; });
  refuses("ld of x = 2", [&](RunArguments& a) { a.operands.set("x", {x_.data(), 2}); });
  refuses("ld of y = 1", [&](RunArguments& a) { a.operands.set("y", {y_.data(), 1}); });
  refuses("ld of x = -3", [&](RunArguments& a) { a.operands.set("x", {x_.data(), -3}); });
  refuses("no operand z", [&](RunArguments& a) { a.operands.set("z", {x_.data()}); });
  refuses("beta", [](RunArguments& a) { a.beta = 1; });
  refuses("aligned", [&](RunArguments& a) { a.operands.set("x", {reinterpret_cast<const char*>(x_.data()) + 2}); });
  refuses("beyond 32 bits", [](RunArguments& a) { a.tokens = std::int64_t{1} << 32; });
  EXPECT_EQ(fake_cuda().launches.size(), launched);
}

TEST_F(TunedModelTest, AllocatesNothingInRun) {
  const Operator fc1 = op("fc/1");
  const Operator fc2 = op("fc2");
  const Operator fc3 = op("fc3");
  alignas(256) static std::array<unsigned char, 64> workspace;
  std::vector<unsigned char> large(*fc3.workspace_bytes(2) + 256);
  auto* large_workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(large.data()) + 255) / 256 * 256);
  fake_cuda().record = false;
  const std::int64_t buffers = fake_cuda().live_buffers;
  const std::int64_t before = host_allocations();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(
        fc1.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}, .tokens = 2}, nullptr)
            .ok());
    ASSERT_TRUE(
        fc2.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}}, .tokens = 2, .workspace = workspace.data()},
                nullptr)
            .ok());
    ASSERT_TRUE(fc3.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}},
                         .tokens = 2,
                         .workspace = large_workspace},
                        nullptr)
                    .ok());
  }
  EXPECT_EQ(host_allocations(), before);
  EXPECT_EQ(fake_cuda().live_buffers, buffers);
}

TEST_F(TunedModelTest, ManyThreadsRunOneOperator) {
  const Operator fc1 = op("fc/1");
  fake_cuda().record = false;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<float> x = {static_cast<float>(t), 1, 1};
      for (int i = 0; i < 200; ++i) {
        std::vector<float> y(2);
        const Status status =
            fc1.run({.operands = {{"x", {x.data()}}, {"y", {y.data()}}, {"bias", {bias_.data()}}}}, nullptr);
        if (!status.ok() || y[0] != static_cast<float>(t) + 2.5F) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(TunedModelTest, DescribesItself) {
  auto model = load();
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_THAT(model->names(), ElementsAre("fc/1", "fc2", "fc3"));
  const OperatorInfo info = model->op("fc/1")->info();
  EXPECT_EQ(info.kind, OperatorKind::kSpmm);
  EXPECT_EQ(info.rows, 2);
  EXPECT_EQ(info.cols, 3);
  EXPECT_EQ(info.epilogue, "bias");
  ASSERT_EQ(info.operands.size(), 4U);
  EXPECT_EQ(info.operands[2].name, "bias");
  EXPECT_TRUE(info.operands[2].present);
  EXPECT_FALSE(info.operands[3].present);
  ASSERT_EQ(info.choices.size(), 2U);
  EXPECT_EQ(info.choices[1].tokens, 8);
  EXPECT_EQ(info.choices[1].config, "rows threads_per_block=128");
  EXPECT_EQ(info.choices[1].packing, CsrPacking().name());
  EXPECT_TRUE(info.choices[1].measured);
  EXPECT_EQ(info.choices[1].median_us, 3.25);
  EXPECT_EQ(info.choices[1].dense_us, 7.5);
  const WeightInfo weight = model->weight("fc/1")->info();
  EXPECT_EQ(weight.nnz, 3);
  EXPECT_EQ(weight.gpu_bytes, 3 * 256) << "three arrays, as allocated";
  EXPECT_EQ(weight.places_bytes, 0);
  EXPECT_EQ(model->gpu_bytes(), 2 * 3 * 256 + 256);
  EXPECT_THAT(model->op("fc/1", OperatorKind::kSpmmTransposed).status().message(),
              HasSubstr("fc/1: the file has no operator spmm_transposed"));
  const auto missing = model->op("fc9");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("fc/1, fc2, fc3"));
}

TEST_F(TunedModelTest, AGroupSaysWhereItsMembersLie) {
  sample_.contents().weights[0].members = {{"q", 0, 1}, {"k", 1, 1}};
  const Operator group = op("fc/1");
  ASSERT_TRUE(
      group.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}, .tokens = 2}, nullptr)
          .ok());
  const auto k = group.member("k", 2);
  ASSERT_TRUE(k.ok()) << k.status().to_string();
  EXPECT_EQ(k->first_row, 1);
  EXPECT_EQ(k->rows, 1);
  EXPECT_THAT(y_[static_cast<std::size_t>(k->offset)], 30.25F);
  EXPECT_THAT(y_[static_cast<std::size_t>(k->offset + k->ld)], 60.25F);
  EXPECT_EQ(group.member("k", 2, 7)->ld, 7);

  EXPECT_EQ(group.member("k", 2, 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(group.member("k", -1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(group.member("v", 2).status().message(), HasSubstr("fc/1: there is no member v; there are q, k"));
  EXPECT_THAT(op("fc2").member("k", 2).status().message(), HasSubstr("fc2: there is no member k: it is no group"));
  const auto model = load();
  EXPECT_THAT(model->names(), ElementsAre("fc/1", "fc2", "fc3"));
  ASSERT_EQ(model->weight("fc/1")->info().members.size(), 2U);
  EXPECT_EQ(model->weight("fc/1")->info().members[1].name, "k");
  EXPECT_EQ(model->op("k").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(model->op("k").status().message(),
              HasSubstr("k is no weight of its own: it is rows 1 to 1 of group fc/1"));
}

TEST_F(TunedModelTest, AFeatureMajorMemberIsWholeRows) {
  TunedWeight& weight = sample_.contents().weights[2];
  weight.operators[0].spec.layout = Layout::kFeatureMajor;
  weight.operators[0].spec.epilogue.bias = false;
  weight.members = {{"q", 0, 1}, {"k", 1, 1}};
  const Operator group = op("fc3");
  EXPECT_EQ(group.member("q", 5)->offset, 0);
  EXPECT_EQ(group.member("k", 5)->offset, 5);
  EXPECT_EQ(group.member("k", 5, 8)->offset, 8);
  EXPECT_EQ(group.member("k", 5, 8)->ld, 8);
  EXPECT_EQ(group.member("k", 5, 4).status().code(), StatusCode::kInvalidArgument);

  const std::vector<float> x = {1, 2, 10, 20, 100, 200};  // [K][N]
  std::vector<unsigned char> space(*group.workspace_bytes(2) + 256);
  auto* workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(space.data()) + 255) / 256 * 256);
  ASSERT_TRUE(
      group.run({.operands = {{"x", {x.data()}}, {"y", {y_.data()}}}, .tokens = 2, .workspace = workspace}, nullptr)
          .ok());
  const MemberView k = *group.member("k", 2);
  EXPECT_THAT(std::vector<float>(y_.begin() + k.offset, y_.begin() + k.offset + 2), ElementsAre(30, 60));
}

// The fake kernel computes W x + bias: here with dy in the place of the bias, and values in that of y.
TEST_F(TunedModelTest, AnOperatorOfThePatternHasOperandsOfItsOwn) {
  TunedWeight& weight = sample_.contents().weights[0];
  TunedOperator& gradient = weight.operators.emplace_back(TunedOperator(weight.operators[0]));
  gradient.spec = {.kind = OperatorKind::kSddmm};
  gradient.spec.set_weight(weight.rows, weight.cols, weight.nnz);
  for (TunedChoice& choice : gradient.choices) {
    std::vector<PlanArgument>& arguments = choice.plan.steps[0].arguments;
    arguments[4].name = "values";
    arguments[5].name = "dy";
    arguments[9].value = *IntegerExpression::parse("ld.dy");
  }
  const auto model = load();
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const Operator op = model->op("fc/1", OperatorKind::kSddmm).value();
  EXPECT_EQ(op.info().kind, OperatorKind::kSddmm);
  ASSERT_EQ(op.info().operands.size(), 3U);
  EXPECT_EQ(op.info().operands[2].name, "values");
  EXPECT_EQ(op.info().operands[2].length.of(1), 3);
  const RunArguments good{.operands = {{"x", {x_.data()}}, {"dy", {bias_.data()}}, {"values", {y_.data()}}},
                          .tokens = 1};
  ASSERT_TRUE(op.run(good, nullptr).ok());
  EXPECT_THAT(y_, ElementsAre(201.5F, 30.25F, -1, -1));
  RunArguments none = good;
  none.tokens = 0;
  ASSERT_TRUE(op.run(none, nullptr).ok());
  EXPECT_THAT(y_, ElementsAre(0, 0, 0, -1)) << "no tokens: a sum of nothing";
  const auto refuses = [&](const char* reason, auto&& change) {
    RunArguments arguments = good;
    change(arguments);
    EXPECT_THAT(op.run(arguments, nullptr).message(), HasSubstr(reason));
  };
  refuses("dy is null", [](RunArguments& a) { a.operands.set("dy", {}); });
  refuses("values is null", [](RunArguments& a) { a.operands.set("values", {}); });
  refuses("no operand y", [&](RunArguments& a) { a.operands.set("y", {y_.data()}); });
  refuses("ld of dy = 1", [&](RunArguments& a) { a.operands.set("dy", {bias_.data(), 1}); });
  EXPECT_EQ(op.member("q", 1).status().code(), StatusCode::kUnsupported);

  weight.operators[1].choices[0].plan.steps.push_back(matmul_step("values", std::nullopt));
  EXPECT_THAT(write_tuned_file(path_, sample_.contents()).message(), HasSubstr("of which sddmm has the pattern alone"));
}

TEST_F(TunedModelTest, SaysHowToTuneForAnotherArchitecture) {
  fake_cuda().compute_capability = 100;
  const auto model = load();
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(model.status().message(), HasSubstr("sm_80, sm_90"));
  EXPECT_THAT(model.status().message(), HasSubstr("--arch sm_100"));
  fake_cuda().compute_capability = 86;  // served by sm_80
  EXPECT_TRUE(load().ok());
}

TEST_F(TunedModelTest, ADamagedFileIsAnErrorAndTakesNoMemory) {
  ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
  std::string bytes = *read_file(path_);
  bytes[bytes.size() / 2] = '\0';
  ASSERT_TRUE(write_file_atomically(path_, bytes).ok());
  EXPECT_EQ(TunedModel::load(path_, *Device::open(0)).status().code(), StatusCode::kInvalidInput);
  EXPECT_EQ(TunedModel::load(path_ + ".missing", *Device::open(0)).status().code(), StatusCode::kNotFound);
}

// What holds for the buckets need not hold beyond them.
TEST_F(TunedModelTest, EachRunIsHeldToItsWorkspace) {
  LaunchPlan& plan =
      sample_.contents().weights[1].operators[0].choices[0].plan;  // fake_fill of n * 16 bytes, then fake_csr
  plan.workspace_bytes = *IntegerExpression::parse("n * 16 - n / 9 * 16");
  PlanStep& zero = plan.steps.emplace_back();
  zero.kind = PlanStep::Kind::kZero;
  zero.zero_bytes = *IntegerExpression::parse("n * 16");
  const Operator fc2 = op("fc2");
  fake_cuda().check_memory = true;
  const auto lend = [](void* address, std::size_t bytes) {
    fake_cuda().memory[reinterpret_cast<std::uintptr_t>(address)] = bytes;
  };
  alignas(256) std::array<unsigned char, 128> workspace{};
  x_.resize(27);
  y_.resize(18);
  lend(x_.data(), 27 * sizeof(float));
  lend(y_.data(), 18 * sizeof(float));
  lend(workspace.data(), workspace.size());
  ASSERT_TRUE(
      fc2.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}}, .tokens = 8, .workspace = workspace.data()},
              nullptr)
          .ok());
  const std::size_t launched = fake_cuda().launches.size();
  const Status status = fc2.run(
      {.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}}, .tokens = 9, .workspace = workspace.data()}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("zeroes 144 bytes from byte 0 on of a workspace of 128 bytes"));
  EXPECT_EQ(fake_cuda().launches.size(), launched) << "the steps before it were launched";
  EXPECT_TRUE(fake_cuda().violations.empty());
}

TEST_F(TunedModelTest, KernelsBeginEarlyBehindAWriteOnlyIfTheyWaitForIt) {
  sample_.contents().weights.resize(1);
  TunedWeight& weight = sample_.contents().weights[0];
  weight.packings[0].writers = {TunedSample::writer()};
  for (const bool asks : {false, true}) {
    for (TunedChoice& choice : weight.operators[0].choices) {
      PlanStep& product = choice.plan.steps[0];
      if (product.kernel != "fake_csr") continue;
      product.programmatic_launch = true;
      if (asks) product.arguments[6].value = IntegerExpression::of("1 + written");  // two rows, if it is 1
    }
    ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
    for (const bool updatable : {false, true}) {
      const auto model = TunedModel::load(path_, 0, {.updatable = updatable});
      ASSERT_TRUE(model.ok()) << model.status().to_string();
      y_.assign(4, -1);
      const Status run = model->weight("fc/1")->op()->run(
          {.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}, .tokens = 1}, nullptr);
      ASSERT_TRUE(run.ok()) << run.to_string();
      EXPECT_EQ(fake_cuda().launches.back().programmatic, asks || !updatable);
      EXPECT_EQ(y_[1] != -1, updatable || !asks);
    }
  }
  // A second kernel that reads the weight would begin before the first one has waited.
  std::vector<PlanStep>& steps = weight.operators[0].choices[0].plan.steps;
  steps.push_back(steps[0]);
  for (const bool asks : {false, true}) {
    steps[1].arguments[6].value = asks ? IntegerExpression::of("1 + written") : IntegerExpression(2);
    ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
    const auto model = TunedModel::load(path_, 0, {.updatable = true});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    const Status run = model->weight("fc/1")->op()->run(
        {.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}, .tokens = 1}, nullptr);
    ASSERT_TRUE(run.ok()) << run.to_string();
    EXPECT_TRUE(std::prev(fake_cuda().launches.end(), 2)->programmatic);
    EXPECT_EQ(fake_cuda().launches.back().programmatic, asks);
  }
}

TEST_F(TunedModelTest, TakesNewValues) {
  for (std::size_t i = 0; i < 2; ++i) sample_.contents().weights[i].packings[0].writers = {TunedSample::writer()};
  sample_.contents().weights.pop_back();
  ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
  const auto model = TunedModel::load(path_, 0, {.updatable = true});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const Weight weight = *model->weight("fc/1");
  EXPECT_EQ(weight.info().gpu_bytes, 3 * 256);
  EXPECT_EQ(weight.info().places_bytes, 256);
  EXPECT_EQ(model->gpu_bytes(), 2 * 4 * 256);
  const std::vector<float> values = {4, 0, -2};
  fake_cuda().check_memory = true;
  fake_cuda().memory[reinterpret_cast<std::uintptr_t>(values.data())] = values.size() * sizeof(float);
  auto* stream = reinterpret_cast<void*>(0x42);
  const Status status = weight.set_values(values.data(), DataType::kFloat32, stream);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(fake_cuda().launches.back().stream, stream);
  fake_cuda().check_memory = false;
  const Operator fc1 = *weight.op();
  ASSERT_TRUE(
      fc1.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}, .tokens = 2}, nullptr)
          .ok());
  EXPECT_THAT(y_, ElementsAre(4.5F, -19.75F, 8.5F, -39.75F));  // [[4, 0, 0], [0, -2, 0]]
  alignas(256) std::array<unsigned char, 64> workspace{};
  ASSERT_TRUE(
      model->op("fc2")
          ->run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}}, .tokens = 1, .workspace = workspace.data()},
                nullptr)
          .ok());
  EXPECT_EQ(y_[0], 201) << "another weight's values have changed";

  const auto refuses = [&](const void* at, DataType type, const char* reason) {
    const std::size_t launched = fake_cuda().launches.size();
    EXPECT_THAT(weight.set_values(at, type, nullptr).message(), HasSubstr(reason));
    EXPECT_EQ(fake_cuda().launches.size(), launched);
  };
  refuses(nullptr, DataType::kFloat32, "fc/1: values is null");
  refuses(reinterpret_cast<const char*>(values.data()) + 1, DataType::kFloat32, "aligned");
  refuses(values.data(), DataType::kFloat16, "values of fp16");
  EXPECT_THAT(TunedModel::load(path_)->weight("fc/1")->set_values(values.data(), DataType::kFloat32, nullptr).message(),
              HasSubstr("LoadOptions::updatable"));
}

TEST_F(TunedModelTest, TakesNoNewValuesWithoutAWriter) {
  ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
  const Status status = TunedModel::load(path_, 0, {.updatable = true}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("tune again"));
}

TEST_F(TunedModelTest, LoadsFromMemoryIntoMemoryOfTheCallers) {
  struct Arena {
    std::vector<unsigned char> bytes = std::vector<unsigned char>(1 << 16);
    int live = 0;
    std::size_t offset = 0;  // from a multiple of 256
    static void* allocate(std::size_t bytes, void* context) {
      auto* arena = static_cast<Arena*>(context);
      if (bytes + 512 > arena->bytes.size()) return nullptr;
      ++arena->live;
      const auto begin = (reinterpret_cast<std::uintptr_t>(arena->bytes.data()) + 255) / 256 * 256;
      return reinterpret_cast<void*>(begin + arena->offset);
    }
    static void free(void*, void* context) { --static_cast<Arena*>(context)->live; }
  } arena;
  sample_.contents().weights.pop_back();  // cuBLASLt's memory is its own
  ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
  const std::string text = *read_file(path_);
  std::vector<std::uint64_t> file(text.size() / 8 + 1);
  std::memcpy(file.data(), text.data(), text.size());
  const auto bytes = std::as_bytes(std::span(file)).first(text.size());
  const LoadOptions options{.allocator = {Arena::allocate, Arena::free, &arena}};
  EXPECT_TRUE(TunedModel::validate(bytes).ok());
  EXPECT_EQ(TunedModel::validate(bytes.subspan(1)).code(), StatusCode::kInvalidArgument);
  {
    const auto model = TunedModel::load(bytes, 0, options);
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    std::ranges::fill(file, 0);
    EXPECT_EQ(arena.live, 1);
    EXPECT_EQ(fake_cuda().live_buffers, 0);
    ASSERT_TRUE(model->op("fc/1")
                    ->run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}}, nullptr)
                    .ok());
    EXPECT_THAT(std::vector<float>(y_.begin(), y_.begin() + 2), ElementsAre(201.5F, 30.25F));
  }
  EXPECT_EQ(arena.live, 0);
  arena.offset = 8;
  EXPECT_THAT(TunedModel::load(path_, 0, options).status().message(), HasSubstr("not aligned"));
  EXPECT_EQ(arena.live, 0);
  arena.bytes.resize(16);
  EXPECT_EQ(TunedModel::load(path_, 0, options).status().code(), StatusCode::kOutOfMemory);
}

TEST_F(TunedModelTest, LoadsWithoutADeviceAtHand) {
  ASSERT_TRUE(write_tuned_file(path_, sample_.contents()).ok());
  EXPECT_TRUE(TunedModel::validate(path_).ok());
  const auto model = TunedModel::load(path_);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_TRUE(model->op("fc/1")
                  ->run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}}, nullptr)
                  .ok());
  EXPECT_EQ(TunedModel::load(path_, 7).status().code(), StatusCode::kNoDevice);
}

TEST_F(TunedModelTest, ADeviceErrorNamesTheWeightAndTheKernel) {
  const Operator fc1 = op("fc/1");
  fake_cuda().fail_launches_with = 719;
  const Status status =
      fc1.run({.operands = {{"x", {x_.data()}}, {"y", {y_.data()}}, {"bias", {bias_.data()}}}}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_THAT(status.message(), HasSubstr("fc/1"));
  EXPECT_THAT(status.message(), HasSubstr("fake_csr"));
}

}  // namespace
}  // namespace sparsmith
