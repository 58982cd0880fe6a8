// Every parameter value of the families, on the CPU: drawn kernels run in the emulator, which reports races, barriers
// that part of a block misses and accesses out of bounds, and their outputs are compared with Eigen in fp64.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "formats/packed_format.h"
#include "tests/dense_epilogue_cases.h"
#include "tests/kernel_cases.h"
#include "tests/value_writer_cases.h"

namespace sparsmith::test {
namespace {

Result<KernelImage> source_image(const KernelSource& kernel) {
  return KernelImage{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
}

struct Tested {
  const char* family;
  int kernels;  // drawn for a part: no fewer than the parameters have values, each of which is drawn in turn
  int parts;    // tests of their own, so that they run side by side: together thousands of cases of hundreds of kernels
};

void PrintTo(const Tested& tested, std::ostream* out) { *out << tested.family; }

constexpr Tested kTested[] = {
    {"rows", 70, 6},        {"slots", 45, 3},    {"panel", 45, 2},   {"gather", 34, 2},
    {"bitmap", 36, 1},      {"scatter", 52, 1},  {"wgmma", 50, 1},   {"bsr", 24, 1},
    {"specialized", 52, 1}, {"two_four", 36, 1}, {"sampled", 28, 1},
};

// What verifying has asked of kernels beside ordinary outputs: Inf and NaN in X meet stored weights and no others,
// through every activation, and old Y is NaN where beta is 0.
class Expected {
 public:
  void add(const KernelCase& each) {
    const Epilogue& epilogue = each.problem.spec.epilogue;
    if (epilogue.beta) betas_.insert(each.inputs.beta);
    const PoisonedInput poisoned = ReferenceProblem(each.matrix, each.problem.spec, each.inputs).poisoned_input();
    effects_[epilogue.activation].insert(poisoned.effects.begin(), poisoned.effects.end());
  }

  void expect_all_kinds(bool with_activations) {
    using Effect = PoisonEffect;
    EXPECT_THAT(betas_, testing::IsSupersetOf({0.0F, 1.0F, -1.0F}));
    EXPECT_THAT(effects_[Activation::kNone],
                testing::IsSupersetOf({Effect::kNone, Effect::kInfinity, Effect::kNegativeInfinity, Effect::kNan}));
    if (!with_activations) return;
    EXPECT_THAT(effects_[Activation::kRelu],
                testing::IsSupersetOf({Effect::kNone, Effect::kInfinity, Effect::kFinite, Effect::kNan}));
    for (const Activation activation : {Activation::kGelu, Activation::kSilu})
      EXPECT_THAT(effects_[activation], testing::IsSupersetOf({Effect::kNone, Effect::kInfinity, Effect::kNan}));
  }

 private:
  std::set<float> betas_;
  std::map<Activation, std::set<PoisonEffect>> effects_;
};

class EmulatedKernelsTest : public testing::TestWithParam<std::tuple<Tested, int>> {};

TEST_P(EmulatedKernelsTest, AgreeWithEigen) {
  const auto& [drawn, part] = GetParam();
  const Family& tested = *family(drawn.family);
  constexpr int kWeights = 10;
  const std::uint64_t seed = seed_of_run() + static_cast<std::uint64_t>(part);
  fmt::print("SPARSMITH_TEST_SEED={} (part {})\n", seed - static_cast<std::uint64_t>(part), part);
  auto compiler = make_jit_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  auto executor = make_emulated_executor({.compiler = std::move(*compiler), .schedule_seed = seed | 1});
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  std::set<std::string> kernels;
  const ImageOf image_of = [&kernels](const KernelSource& kernel) {
    kernels.insert(kernel.name);
    return source_image(kernel);
  };
  std::map<std::string, std::set<std::int64_t>> seen;
  Expected expected;
  int count = 0;
  for (const KernelCase& each : draw_cases(tested, seed, drawn.kernels, kWeights)) {
    const Status status = run_case(each, **executor, image_of);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
    ++count;
    expected.add(each);
    for (const auto& [parameter, value] : each.config.values) seen[parameter].insert(value);
  }
  expected.expect_all_kinds(tested.serves(OperatorSpec()));
  fmt::print("{} cases, {} kernels\n", count, kernels.size());
  EXPECT_GE(count, 4 * drawn.kernels);
  EXPECT_GE(kernels.size(), static_cast<std::size_t>(drawn.kernels) * 6 / 7);
  std::size_t values = 0;
  for (const Parameter& parameter : tested.parameters()) {
    values += parameter.values.size();
    for (const std::int64_t value : parameter.values)
      EXPECT_TRUE(seen[parameter.name].contains(value)) << parameter.name << " = " << value << " was never run";
  }
  EXPECT_GE(static_cast<std::size_t>(drawn.kernels), values) << "kernels, for each value to be drawn";
}

// The kernel behind a dense product; the product, which is a library's on a GPU, is the host's here.
TEST(EmulatedDenseEpilogueTest, AgreesWithEigen) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  auto compiler = make_jit_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  auto executor = make_emulated_executor({.compiler = std::move(*compiler), .schedule_seed = seed | 1});
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  int count = 0;
  for (const KernelCase& each : draw_dense_epilogue_cases(seed, 12)) {
    const Status status = run_dense_epilogue_case(each, **executor, source_image);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
    ++count;
  }
  EXPECT_EQ(count, 24 * 12);
}

TEST(EmulatedValueWriterTest, ArraysAreAsPackedAnew) {
  const std::uint64_t seed = seed_of_run();
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);
  Random random(seed);
  auto compiler = make_jit_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  auto executor = make_emulated_executor({.compiler = std::move(*compiler), .schedule_seed = seed | 1});
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  for (const PackedFormat& format : packed_formats()) {
    for (int round = 0; round < 12; ++round) {
      const Status status =
          run_value_writer_case(draw_value_writer_case(random, format.name), random, **executor, source_image);
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
}

std::vector<std::tuple<Tested, int>> all_parts() {
  std::vector<std::tuple<Tested, int>> parts;
  for (const Tested& tested : kTested)
    for (int part = 0; part < tested.parts; ++part) parts.emplace_back(tested, part);
  return parts;
}

INSTANTIATE_TEST_SUITE_P(Families, EmulatedKernelsTest, testing::ValuesIn(all_parts()), [](const auto& instance) {
  return fmt::format("{}_{}", std::get<0>(instance.param).family, std::get<1>(instance.param));
});

}  // namespace
}  // namespace sparsmith::test
