// Runs on the fake driver, in which device memory is host memory.
#include "python/native/plan_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "tests/support/fake_cuda_driver.h"
#include "tests/support/tuned_sample.h"

namespace sparsmith::torch {
namespace {

using testing::HasSubstr;

// A weight of the sample, registered, with its bytes.
struct Registered {
  std::shared_ptr<Plan> plan;
  std::vector<std::byte> memory;  // with room to align
  std::span<std::byte> packed;

  Registered(const TunedContents& contents, std::size_t weight) {
    const Result<std::vector<std::int64_t>> hashes = PlanRegistry::instance().add(contents, "sample");
    EXPECT_TRUE(hashes.ok()) << hashes.status().to_string();
    plan = PlanRegistry::instance().find((*hashes)[weight]);
    memory.resize(plan->packed_bytes() + 256);
    const std::size_t skip = (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
    packed = std::span(memory).subspan(skip, plan->packed_bytes());
    plan->copy_arrays(contents.weights[weight], packed.data());
  }
  DeviceAddress address() const { return reinterpret_cast<DeviceAddress>(packed.data()); }
};

TEST(PlanRegistryTest, TheBytesAreTheWeight) {
  TunedSample sample;
  for (std::size_t weight = 0; weight < sample.contents().weights.size(); ++weight) {
    const Registered one(sample.contents(), weight);
    const Result<CsrMatrix> matrix = one.plan->unpack(one.packed);
    ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
    EXPECT_EQ(matrix->column_indices, sample.matrix().column_indices);
    EXPECT_EQ(matrix->values, sample.matrix().values);
    EXPECT_TRUE(one.plan->check(one.packed).ok());
  }
}

TEST(PlanRegistryTest, BytesOfAnotherOriginAreChecked) {
  TunedSample sample;
  Registered one(sample.contents(), 0);
  EXPECT_THAT(one.plan->check(one.packed.first(8)).message(), HasSubstr("has 8 bytes"));
  std::ranges::fill(one.packed, std::byte{0xFF});
  const Status status = one.plan->check(one.packed);
  EXPECT_EQ(status.code(), StatusCode::kInvalidInput);
  EXPECT_THAT(status.message(), HasSubstr("fc/1"));
  EXPECT_FALSE(one.plan->unpack(one.packed).ok());
}

TEST(PlanRegistryTest, TheHashFollowsAllButTheValues) {
  const auto hash_after = [](auto&& change) {
    TunedSample sample;
    change(sample.contents());
    return PlanRegistry::instance().add(sample.contents(), "sample").value().front();
  };
  const std::int64_t hash = hash_after([](TunedContents&) {});
  EXPECT_GT(hash, 0);
  EXPECT_EQ(hash, hash_after([](TunedContents& c) { c.weights[0].value_hash = "other"; }));
  EXPECT_EQ(hash, hash_after([](TunedContents& c) { c.weights[0].name = "other"; }));
  EXPECT_NE(hash, hash_after([](TunedContents& c) { c.weights[0].pattern_hash = "other"; }));
  EXPECT_NE(hash, hash_after([](TunedContents& c) { ++c.weights[0].packings[0].facts["rows"]; }));
  EXPECT_NE(hash, hash_after([](TunedContents& c) { ++c.weights[0].operators[0].choices[0].tokens; }));
  EXPECT_NE(hash, hash_after([](TunedContents& c) {
              for (TunedKernel& kernel : c.kernels) ++kernel.max_shared_bytes;
            }));
  EXPECT_EQ(PlanRegistry::instance().find(17), nullptr);
}

TEST(PlanRegistryTest, FilesThatLayersCannotUseAreErrors) {
  TunedSample sample;
  sample.contents().weights[1].operators[0].spec.layout = Layout::kFeatureMajor;
  const auto feature_major = PlanRegistry::instance().add(sample.contents(), "some file");
  EXPECT_THAT(feature_major.status().message(), HasSubstr("some file: weight fc2"));
  sample.contents().weights[1].operators[0].spec.kind = OperatorKind::kSpmmTransposed;
  EXPECT_THAT(PlanRegistry::instance().add(sample.contents(), "some file").status().message(), HasSubstr("spmm"));
}

TEST(PlanRegistryTest, RunsOnTheBytesThatItIsBoundTo) {
  TunedSample sample;
  const Registered one(sample.contents(), 0);
  const auto bound = one.plan->bind(0, one.address());
  ASSERT_TRUE(bound.ok()) << bound.status().to_string();
  EXPECT_EQ(one.plan->bind(0, one.address()).value(), *bound);
  std::array<float, 3> x = {1, 10, 100};
  std::array<float, 2> bias = {0.5F, 0.25F};
  std::array<float, 2> y = {};
  ASSERT_TRUE((*bound)
                  ->spmm
                  .run(*(*bound)->context,
                       {.operands = {{"x", {x.data()}}, {"y", {y.data()}}, {"bias", {bias.data()}}}, .tokens = 1},
                       nullptr)
                  .ok());
  EXPECT_EQ(y, (std::array{201.5F, 30.25F}));
  const std::int64_t modules = fake_cuda().modules_loaded;
  const Registered again(sample.contents(), 0);
  ASSERT_TRUE(again.plan->bind(0, again.address()).ok());
  EXPECT_EQ(fake_cuda().modules_loaded, modules) << "kernels are loaded once";
  for (DeviceAddress address = 256; address < 256 * 100; address += 256) ASSERT_TRUE(one.plan->bind(0, address).ok());
  EXPECT_NE(one.plan->bind(0, one.address()).value(), *bound) << "old bindings make room";
  EXPECT_FALSE(one.plan->bind(7, one.address()).ok()) << "there is one device";
}

TEST(PlanRegistryTest, AKernelThatLoadsItsWeightMayBeginEarly) {
  for (const bool loads_weight : {true, false}) {
    TunedSample sample;
    LaunchPlan& plan = sample.contents().weights[0].operators[0].choices[0].plan;
    ASSERT_FALSE(plan.steps[0].programmatic_launch);
    if (!loads_weight)
      std::erase_if(plan.steps[0].arguments,
                    [](const PlanArgument& argument) { return argument.kind == PlanArgument::Kind::kPacked; });
    const Registered one(sample.contents(), 0);
    EXPECT_EQ(one.plan->weight().operators[0].choices[0].plan.steps[0].programmatic_launch, loads_weight);
  }
}

TEST(PlanRegistryTest, ThreadsLoadAndBind) {
  TunedSample sample;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const Registered one(sample.contents(), static_cast<std::size_t>(i % 3));
        EXPECT_TRUE(one.plan->bind(0, one.address()).ok());
      }
    });
  }
}

}  // namespace
}  // namespace sparsmith::torch
