// Runs on the fake driver, in which device memory is host memory.
#include "python/native/plan_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "formats/packed_format.h"
#include "formats/places.h"
#include "tests/support/fake_cuda_driver.h"
#include "tests/support/packings.h"
#include "tests/support/tuned_sample.h"

namespace sparsmith::torch {
namespace {

using testing::HasSubstr;

// A weight of the sample, registered, with its bytes.
struct Registered {
  std::shared_ptr<Plan> plan;
  std::vector<std::byte> memory;  // with room to align
  std::span<std::byte> packed;

  Registered(const TunedContents& contents, std::size_t weight, bool updatable = false) {
    const auto added = PlanRegistry::instance().add(contents, "sample", updatable);
    EXPECT_TRUE(added.ok()) << added.status().to_string();
    plan = PlanRegistry::instance().find((*added)[weight].plan->hash());
    memory.resize(plan->packed_bytes() + 256);
    const std::size_t skip = (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
    packed = std::span(memory).subspan(skip, plan->packed_bytes());
    plan->copy_arrays(contents.weights[weight], (*added)[weight].written, packed.data());
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

TEST(PlanRegistryTest, AWeightIsReadFromAPackingThatHoldsValues) {
  TunedSample sample;
  const Result<PackedWeight> pattern = pack_tile_masks(sample.matrix(), TileMasksPacking(), DataType::kFloat16);
  ASSERT_TRUE(pattern.ok()) << pattern.status().to_string();
  std::vector<TunedPacking>& packings = sample.contents().weights[0].packings;
  packings.insert(packings.begin(), view_of(*pattern));
  const Registered one(sample.contents(), 0);
  const Result<CsrMatrix> matrix = one.plan->unpack(one.packed);
  ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
  EXPECT_EQ(matrix->values, sample.matrix().values);
  packings.pop_back();
  const Registered none(sample.contents(), 0);
  EXPECT_THAT(none.plan->unpack(none.packed).status().message(), HasSubstr("weight fc/1: its packings hold no values"));
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
    return PlanRegistry::instance().add(sample.contents(), "sample").value().front().plan->hash();
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
                  ->op(OperatorKind::kSpmm)
                  .run(*(*bound)->context,
                       {.operands = {{"x", {x.data()}}, {"y", {y.data()}}, {"bias", {bias.data()}}}, .tokens = 1},
                       nullptr)
                  .ok());
  EXPECT_EQ(y, (std::array{201.5F, 30.25F}));
  const std::int64_t modules = fake_cuda().modules_loaded;
  const Registered again(sample.contents(), 0);
  ASSERT_TRUE(again.plan->bind(0, again.address()).ok());
  EXPECT_EQ(fake_cuda().modules_loaded, modules) << "kernels are loaded once";
  for (DeviceAddress address = 256; address < 256 * 300; address += 256) ASSERT_TRUE(one.plan->bind(0, address).ok());
  EXPECT_NE(one.plan->bind(0, one.address()).value(), *bound) << "old bindings make room";
  EXPECT_FALSE(one.plan->bind(7, one.address()).ok()) << "there is one device";
}

TEST(PlanRegistryTest, PrunesIntoTheBytesThatItIsBoundTo) {
  TunedSample sample;
  sample.make_prunable();
  auto added = PlanRegistry::instance().add(sample.contents(), "sample");
  ASSERT_TRUE(added.ok()) << added.status().to_string();
  Plan& plan = *(*added)[0].pruned;
  EXPECT_TRUE(plan.prunes());
  EXPECT_FALSE((*added)[0].plan->prunes());
  EXPECT_NE(plan.hash(), (*added)[0].plan->hash());
  EXPECT_EQ((*added)[1].pruned, nullptr);
  alignas(256) std::array<unsigned char, 4096> bytes = {};
  ASSERT_LE(plan.packed_bytes(), bytes.size());
  const auto bound = plan.bind(0, reinterpret_cast<DeviceAddress>(bytes.data()));
  ASSERT_TRUE(bound.ok()) << bound.status().to_string();
  alignas(16) const std::array<float, 8> dense = {};
  auto* const stream = reinterpret_cast<CUstream>(0x42);
  const auto prune = [&](const float* from, DataType source) {
    return (*bound)->weight.set_values(*(*bound)->context, from, source, stream);
  };
  ASSERT_TRUE(prune(dense.data(), DataType::kFloat32).ok());
  EXPECT_EQ(fake_cuda().launches.back().stream, stream);
  const auto seven = std::ranges::find(bytes, 7);
  EXPECT_GE(seven - bytes.begin(), static_cast<std::ptrdiff_t>(plan.packed_bytes() / 2)) << "the second packing";
  EXPECT_EQ(std::ranges::count(bytes, 7), 16);
  EXPECT_THAT(prune(dense.data() + 1, DataType::kFloat32).message(), HasSubstr("weight is not aligned to 16 bytes"));
  EXPECT_FALSE(prune(dense.data(), DataType::kFloat16).ok());
  const LaunchPlan& product = plan.weight().operators[0].choices[0].plan;
  EXPECT_FALSE(product.steps[0].programmatic_launch) << "it could read the old weight";

  // Any weight of the shape has the plan; a product that reads something else has none.
  sample.contents().weights[0].pattern_hash = "other";
  EXPECT_EQ(PlanRegistry::instance().add(sample.contents(), "sample").value()[0].pruned, (*added)[0].pruned);
  sample.contents().weights[0].operators[0].choices[1].packing = "csr";
  EXPECT_FALSE(Plan::can_prune(sample.contents().weights[0]));
}

// A sample whose first weight trains: it has the transposed product too, on a packing of its own.
void make_updatable(TunedSample& sample) {
  sample.contents().weights.resize(1);
  TunedWeight& weight = sample.contents().weights[0];
  weight.packings[0].writers = {TunedSample::writer()};
  weight.packings.push_back(weight.packings[0]);
  weight.packings[1].packing = transposed_packing(weight.packings[0].packing);
  TunedOperator transposed = weight.operators[0];
  transposed.spec.kind = OperatorKind::kSpmmTransposed;
  transposed.spec.set_weight(weight.rows, weight.cols, weight.nnz);
  for (TunedChoice& choice : transposed.choices) choice.packing = weight.packings[1].packing;
  weight.operators.push_back(transposed);
}

TEST(PlanRegistryTest, TakesNewValuesInThePackingThatIsRead) {
  TunedSample sample;
  make_updatable(sample);
  TunedWeight& weight = sample.contents().weights[0];
  weight.packings.pop_back();  // the fake kernel multiplies by the weight itself
  weight.operators.pop_back();
  // Two rows, if the product knows that the weight is written.
  weight.operators[0].choices[0].plan.steps[0].arguments[6].value = IntegerExpression::of("1 + written");
  const Registered one(sample.contents(), 0, true);
  const Registered constant(sample.contents(), 0);
  EXPECT_NE(one.plan->hash(), constant.plan->hash());
  EXPECT_EQ(one.plan->packed_bytes(), constant.plan->packed_bytes()) << "places, no copies, and no values";
  EXPECT_TRUE(one.plan->check(one.packed).ok());
  EXPECT_EQ(one.plan->unpack(one.packed).value().column_indices, sample.matrix().column_indices);
  const auto bound = one.plan->bind(0, one.address());
  ASSERT_TRUE(bound.ok()) << bound.status().to_string();
  const LoadedOperator& op = (*bound)->op(OperatorKind::kSpmm);
  const std::vector<float> values = {4, 0, -2};
  auto* const stream = reinterpret_cast<CUstream>(0x42);
  EXPECT_EQ(op.workspace_bytes(op.choices[0], {.n = 1}).value(), 256) << "the values";
  alignas(256) std::array<float, 64> workspace = {};
  const auto set_values = [&](std::string_view packing, const void* room) {
    return (*bound)->weight.set_values(*(*bound)->context, values.data(), DataType::kFloat32, stream, packing, room);
  };
  EXPECT_FALSE(set_values(op.chosen[0].packing, nullptr).ok());
  ASSERT_TRUE(set_values(op.chosen[0].packing, workspace.data()).ok());
  EXPECT_EQ(fake_cuda().launches.back().kernel, "fake_write");
  EXPECT_EQ(fake_cuda().launches.back().stream, stream);
  std::array<float, 3> x = {1, 10, 100};
  std::array<float, 2> bias = {0.5F, 0.25F};
  std::array<float, 2> y = {};
  const RunArguments arguments{.operands = {{"x", {x.data()}}, {"y", {y.data()}}, {"bias", {bias.data()}}},
                               .tokens = 1,
                               .workspace = workspace.data()};
  ASSERT_TRUE(op.run(*(*bound)->context, arguments, stream).ok());
  EXPECT_EQ(y, (std::array{4.5F, -19.75F}));
  EXPECT_TRUE(fake_cuda().launches.back().programmatic) << "it waits for the write";
  EXPECT_THAT(set_values("other", workspace.data()).message(), HasSubstr("are not written"));
}

TEST(PlanRegistryTest, ABackwardReadsTheValuesThatItsForwardWrote) {
  TunedSample sample;
  make_updatable(sample);
  sample.contents().weights[0].packings.pop_back();
  sample.contents().weights[0].operators.pop_back();
  const Registered one(sample.contents(), 0, true);
  const auto bound = one.plan->bind(0, one.address()).value();
  const std::string packing = sample.contents().weights[0].packings[0].packing;
  alignas(256) std::array<float, 64> workspace = {};
  const std::vector<float> first = {4, 0, -2};
  const std::vector<float> second = {1, 2, 3};
  const auto writes = [&](OperatorKind kind, const std::vector<float>& values, bool kept = true, int stream = 0) {
    const std::size_t before = fake_cuda().launches.size();
    EXPECT_TRUE(bound
                    ->write_values(kind, packing, kept, values.data(), DataType::kFloat32,
                                   reinterpret_cast<CUstream>(stream), workspace.data())
                    .ok());
    return fake_cuda().launches.size() > before;
  };
  constexpr OperatorKind kForward = OperatorKind::kSpmm;
  constexpr OperatorKind kBackward = OperatorKind::kSpmmTransposed;
  EXPECT_TRUE(writes(kBackward, first)) << "nobody wrote them";
  EXPECT_TRUE(writes(kForward, first));
  EXPECT_FALSE(writes(kBackward, first));
  EXPECT_FALSE(writes(kBackward, first));
  EXPECT_TRUE(writes(kForward, first)) << "they may be new numbers";
  EXPECT_TRUE(writes(kForward, second));
  EXPECT_TRUE(writes(kBackward, first));
  EXPECT_TRUE(writes(kBackward, second)) << "the other backward wrote its own";
  EXPECT_TRUE(writes(kForward, first, false));
  EXPECT_TRUE(writes(kBackward, first, false)) << "the workspace is anybody's";
  // Graphs: the number of a capture is that of the fake stream.
  EXPECT_TRUE(writes(kForward, first));
  EXPECT_TRUE(writes(kBackward, first, true, 7)) << "the graph may run later";
  EXPECT_TRUE(writes(kForward, first, true, 7));
  EXPECT_FALSE(writes(kBackward, first, true, 7));
  EXPECT_TRUE(writes(kBackward, first));
}

TEST(PlanRegistryTest, APlanThatMovesIsOfAnyPattern) {
  TunedSample sample;
  TunedWeight& weight = sample.contents().weights[0];
  sample.contents().weights.resize(1);
  const PackedWeight aligned = pack("csr_u32_a8_natural", sample.matrix(), weight.type).value();
  weight.packings = {view_of(aligned)};
  for (TunedChoice& choice : weight.operators[0].choices) choice.packing = aligned.packing;
  const Status refused = PlanRegistry::instance().add(sample.contents(), "some file", true, 1).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("some file: weight fc"));
  EXPECT_THAT(refused.message(), HasSubstr("tune with --families"));

  const PackedWeight dense = pack("dense", sample.matrix(), weight.type).value();
  weight.packings = {view_of(dense)};
  for (TunedChoice& choice : weight.operators[0].choices) choice.packing = "dense";
  const auto plan_of = [&] {
    return PlanRegistry::instance().add(sample.contents(), "sample", true, 1).value()[0].plan;
  };
  const std::shared_ptr<Plan> plan = plan_of();
  EXPECT_TRUE(plan->moves() && plan->takes_values());
  weight.pattern_hash = "other";
  EXPECT_EQ(plan_of(), plan);
  ++weight.nnz;
  EXPECT_NE(plan_of(), plan) << "operators have outputs of this length";

  // A mask of the elements 1, 2 and 5 of 2 x 3: the sample has as many.
  ASSERT_EQ(plan->weight().nnz, 3);
  std::vector<std::byte> packed(plan->packed_bytes(), std::byte{1});
  const std::vector<PackedPlace> arrays = plan->arrays(0);
  const auto runs = std::ranges::find(arrays, kPlaceRuns, &PackedPlace::name);
  const auto write = [&](std::array<std::uint32_t, 3> words) {
    ASSERT_EQ(runs->bytes, sizeof(words));
    std::memcpy(packed.data() + runs->offset, words.data(), sizeof(words));
  };
  write({0, 0b100110, 0});
  EXPECT_TRUE(plan->check(packed).ok()) << plan->check(packed).to_string();
  EXPECT_EQ(plan->unpack(packed)->column_indices, (std::vector<std::uint32_t>{1, 2, 2}));
  write({0, 0b110, 0});
  EXPECT_THAT(plan->check(packed).message(), HasSubstr("has 2 elements, not 3"));
  write({1, 0b110, 0});
  EXPECT_FALSE(plan->check(packed).ok()) << "values 1 and 2 of 3, and value 0 has no place";
  write({1, 0b100110, 0});
  EXPECT_FALSE(plan->check(packed).ok()) << "there is no value 3";
}

TEST(PlanRegistryTest, ValuesLieInFrontOfTheWorkspace) {
  TunedSample sample;
  sample.contents().weights = {sample.contents().weights[1]};
  TunedWeight& weight = sample.contents().weights[0];
  weight.packings[0].writers = {TunedSample::writer()};
  const LaunchPlan& before = weight.operators[0].choices[0].plan;
  const Registered one(sample.contents(), 0, true);
  const LaunchPlan& after = one.plan->weight().operators[0].choices[0].plan;
  ASSERT_EQ(after.steps.size(), before.steps.size());
  const auto bytes = [](const IntegerExpression& expression) { return expression.evaluate({.n = 4}).value(); };
  EXPECT_EQ(bytes(after.workspace_bytes), 256 + bytes(before.workspace_bytes));
  int moved = 0;
  for (std::size_t step = 0; step < after.steps.size(); ++step) {
    for (std::size_t i = 0; i < after.steps[step].arguments.size(); ++i) {
      const PlanArgument& from = before.steps[step].arguments[i];
      const PlanArgument& to = after.steps[step].arguments[i];
      if (from.kind == PlanArgument::Kind::kPacked && from.name == "values") {
        EXPECT_EQ(to, (PlanArgument{PlanArgument::Kind::kWorkspace, "", 0}));
        ++moved;
      } else if (from.kind == PlanArgument::Kind::kWorkspace) {
        EXPECT_EQ(bytes(to.value), 256 + bytes(from.value));
        ++moved;
      } else {
        EXPECT_EQ(to, from);
      }
    }
  }
  EXPECT_EQ(moved, 2);
}

TEST(PlanRegistryTest, OperatorsOfAConstantWeightAreLeftOut) {
  TunedSample sample;
  make_updatable(sample);
  const auto kinds = [&](bool updatable) {
    std::vector<OperatorKind> found;
    const auto added = PlanRegistry::instance().add(sample.contents(), "sample", updatable);
    EXPECT_TRUE(added.ok()) << added.status().to_string();
    for (const TunedOperator& op : added->front().plan->weight().operators) found.push_back(op.spec.kind);
    return found;
  };
  EXPECT_THAT(kinds(false), testing::ElementsAre(OperatorKind::kSpmm));
  sample.contents().weights[0].packings[1].writers.clear();
  const Status refused = PlanRegistry::instance().add(sample.contents(), "sample", true).status();
  EXPECT_THAT(refused.message(), HasSubstr("_transposed: tune again")) << refused.to_string();
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
