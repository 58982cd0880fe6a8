// Every parameter value of the families, on the CPU: drawn kernels run in the emulator, which reports races, barriers
// that part of a block misses and accesses out of bounds, and their outputs are compared with Eigen in fp64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "tests/dense_epilogue_cases.h"
#include "tests/kernel_cases.h"

namespace sparsmith::testing {
namespace {

Result<KernelImage> source_image(const KernelSource& kernel) {
  return KernelImage{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
}

std::uint64_t seed_of_run() {
  const char* given = std::getenv("SPARSMITH_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

class EmulatedKernelsTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

// Several parts, so that they run side by side: together thousands of cases over hundreds of kernels.
TEST_P(EmulatedKernelsTest, AgreeWithEigen) {
  const Family& tested = *family(std::get<0>(GetParam()));
  const int kernels_drawn = tested.name() == "rows"     ? 70
                            : tested.name() == "bitmap" ? 36
                            : tested.name() == "gather" ? 32
                                                        : 45;
  constexpr int kWeights = 10;
  const int part = std::get<1>(GetParam());
  const std::uint64_t seed = seed_of_run() + static_cast<std::uint64_t>(part);
  fmt::print("SPARSMITH_TEST_SEED={} (part {})\n", seed - static_cast<std::uint64_t>(part), part);
  auto compiler = make_jit_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  auto executor = make_emulated_executor({.compiler = std::move(*compiler), .schedule_seed = seed | 1});
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  std::set<std::string> kernels;
  std::map<std::string, std::set<std::int64_t>> seen;
  int count = 0;
  for (const KernelCase& each : draw_cases(tested, seed, kernels_drawn, kWeights)) {
    const Status status = run_case(each, **executor, source_image);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
    ++count;
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    for (const KernelSource& kernel : candidate->kernels) kernels.insert(kernel.name);
    for (const auto& [parameter, value] : each.config.values) seen[parameter].insert(value);
  }
  fmt::print("{} cases, {} kernels\n", count, kernels.size());
  EXPECT_GE(count, 5 * kernels_drawn);
  EXPECT_GE(kernels.size(), static_cast<std::size_t>(kernels_drawn) * 6 / 7);
  for (const Parameter& parameter : tested.parameters())
    for (const std::int64_t value : parameter.values)
      EXPECT_TRUE(seen[parameter.name].contains(value)) << parameter.name << " = " << value << " was never run";
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

INSTANTIATE_TEST_SUITE_P(Rows, EmulatedKernelsTest,
                         ::testing::Combine(::testing::Values("rows"), ::testing::Range(0, 6)));
INSTANTIATE_TEST_SUITE_P(Bitmap, EmulatedKernelsTest,
                         ::testing::Combine(::testing::Values("bitmap"), ::testing::Range(0, 1)));
INSTANTIATE_TEST_SUITE_P(Gather, EmulatedKernelsTest,
                         ::testing::Combine(::testing::Values("gather"), ::testing::Range(0, 2)));
INSTANTIATE_TEST_SUITE_P(Panel, EmulatedKernelsTest,
                         ::testing::Combine(::testing::Values("panel"), ::testing::Range(0, 2)));
INSTANTIATE_TEST_SUITE_P(Scatter, EmulatedKernelsTest,
                         ::testing::Combine(::testing::Values("scatter"), ::testing::Range(0, 1)));
INSTANTIATE_TEST_SUITE_P(Slots, EmulatedKernelsTest,
                         ::testing::Combine(::testing::Values("slots"), ::testing::Range(0, 3)));

}  // namespace
}  // namespace sparsmith::testing
