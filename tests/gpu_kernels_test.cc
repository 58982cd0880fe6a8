// The drawn cases of emulated_kernels_test.cc on a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "runtime/gpu_executor.h"
#include "tests/kernel_cases.h"
#include "tuner/kernel_compiler.h"

namespace sparsmith::test {
namespace {

TEST(GpuKernelsTest, AgreeWithEigen) {
  auto executor = make_gpu_executor(0);
  if (!executor.ok()) GTEST_SKIP() << "no GPU: " << executor.status().to_string();
  auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const std::uint64_t seed = seed_of_run();
  // compute-sanitizer slows every launch down: a smaller covering set is enough there.
  const char* kernels_given = std::getenv("SPARSMITH_TEST_KERNELS");
  const int kernels = kernels_given != nullptr ? std::atoi(kernels_given) : 300;
  const char* one_family = std::getenv("SPARSMITH_TEST_FAMILY");
  fmt::print("SPARSMITH_TEST_SEED={}\n", seed);

  std::vector<KernelCase> cases;
  for (const auto& each : families()) {
    if (one_family != nullptr && each->name() != one_family) continue;
    for (KernelCase& drawn : draw_cases(*each, seed, kernels, 8)) cases.push_back(std::move(drawn));
  }
  std::map<std::string, KernelSource> sources;
  for (const KernelCase& each : cases) {
    PackedWeight packed;
    auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << each.text() << "\n" << candidate.status().to_string();
    for (KernelSource& kernel : candidate->kernels) sources.emplace(kernel.name, std::move(kernel));
  }
  std::vector<KernelSource> list;
  for (const auto& [name, source] : sources) list.push_back(source);
  const std::string architecture = fmt::format("sm_{}", (*executor)->properties().compute_capability);
  const auto compiled = (*compiler)->compile_all(list, architecture, 0);

  const ImageOf image_of = [&](const KernelSource& kernel) -> Result<KernelImage> {
    const auto& binary = compiled.at(kernel.name);
    if (!binary.ok()) return binary.status();
    return KernelImage{kernel.name, kernel.source, binary->cubin, kernel.max_shared_bytes};
  };
  for (const KernelCase& each : cases) {
    const Status status = run_case(each, **executor, image_of);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << each.text() << "\n" << status.to_string();
  }
  fmt::print("{} cases, {} kernels on {}\n", cases.size(), list.size(), (*executor)->properties().name);
}

}  // namespace
}  // namespace sparsmith::test
