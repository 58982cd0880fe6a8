// Every kernel that may be launched programmatically waits for the kernels before it: run as it is, the emulator sees
// nothing that it touches too early; with its wait taken out, it does.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "generator/families/dense/dense_family.h"
#include "tests/support/dense_cases.h"
#include "tests/support/kernel_cases.h"

namespace sparsmith::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

Result<KernelImage> intact(const KernelSource& kernel) {
  return KernelImage{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
}

// Takes the wait out of `broken`; the other kernels keep theirs.
ImageOf without_wait_in(const std::string& broken) {
  return [broken](const KernelSource& kernel) -> Result<KernelImage> {
    constexpr std::string_view kWait = "wait_for_previous();";
    KernelImage image{kernel.name, kernel.source, {}, kernel.max_shared_bytes};
    if (kernel.name != broken) return image;
    EXPECT_NE(image.source.find(kWait), std::string::npos) << broken << " does not wait for the kernels before it";
    for (std::size_t at = image.source.find(kWait); at != std::string::npos; at = image.source.find(kWait))
      image.source.erase(at, kWait.size());
    return image;
  };
}

// Runs a case as it is, and with its kernel `name` broken.
template <class Run>
void expect_waits(const std::string& name, const std::string& text, const Run& run) {
  const Status whole = run(intact);
  EXPECT_TRUE(whole.ok()) << text << "\n" << whole.to_string();
  const Status broken = run(without_wait_in(name));
  EXPECT_THAT(broken.message(), AnyOf(HasSubstr("before it has waited"), HasSubstr("without having waited")))
      << name << "\n"
      << text;
}

std::unique_ptr<Executor> emulator() {
  auto compiler = make_jit_compiler();
  EXPECT_TRUE(compiler.ok()) << compiler.status().to_string();
  auto executor = make_emulated_executor({.compiler = std::move(*compiler)});
  EXPECT_TRUE(executor.ok()) << executor.status().to_string();
  return std::move(*executor);
}

class ProgrammaticKernelsTest : public testing::TestWithParam<std::string> {};

TEST_P(ProgrammaticKernelsTest, WaitForTheKernelsBefore) {
  const Family& tested = *family(GetParam());
  const auto executor = emulator();
  constexpr int kKernelsOfAKind = 5;
  std::map<std::string, std::set<std::string>> seen;  // kernels by kind: "rows", "finish", "relayout"
  for (KernelCase& each : draw_cases(tested, 7, 40, 2)) {
    each.programmatic = true;
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << each.text() << "\n" << candidate.status().to_string();
    for (const KernelSource& kernel : candidate->kernels) {
      const bool of_family = kernel.name.starts_with(tested.name + "_");
      std::set<std::string>& of_kind = seen[of_family ? tested.name : kernel.name.substr(0, kernel.name.find('_'))];
      // Right behind a step that zeroes a kernel is launched plainly, and need not wait.
      const auto step = std::ranges::find(candidate->plan.steps, kernel.name, &PlanStep::kernel);
      if (!step->programmatic_launch || of_kind.size() >= kKernelsOfAKind) continue;
      if (!of_kind.insert(kernel.name).second) continue;
      expect_waits(kernel.name, each.text(),
                   [&](const ImageOf& image_of) { return run_case(each, *executor, image_of); });
    }
  }
  for (const auto& [kind, kernels] : seen) fmt::print("{} {} kernels\n", kernels.size(), kind);
  EXPECT_GE(seen[tested.name].size(), 4U);
  const bool splits = tested.name == "rows" || tested.name == "panel";
  if (splits || tested.name == "gather") {
    EXPECT_GE(seen["relayout"].size(), 1U);
  }
  if (splits || tested.name == "bitmap" || tested.name == "two_four") {
    EXPECT_GE(seen["finish"].size(), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ProgrammaticKernelsTest, testing::ValuesIn(kernel_families()),
                         [](const auto& instance) { return instance.param; });

TEST(ProgrammaticDenseEpilogueTest, WaitsForTheProduct) {
  const auto executor = emulator();
  for (KernelCase& each : draw_dense_epilogue_cases(7, 1)) {
    each.programmatic = true;
    const auto candidate = dense_with_epilogue(each.problem.spec);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    expect_waits(candidate->kernels.at(0).name, each.text(),
                 [&](const ImageOf& image_of) { return run_dense_epilogue_case(each, *executor, image_of); });
  }
}

TEST(ProgrammaticDenseGradientTest, WaitsForTheProduct) {
  const auto executor = emulator();
  for (KernelCase& each : draw_dense_gradient_cases(7, 1)) {
    if (each.matrix.nnz() == 0) continue;
    each.programmatic = true;
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    expect_waits(candidate->kernels.at(0).name, each.text(),
                 [&](const ImageOf& image_of) { return run_case(each, *executor, image_of); });
  }
}

}  // namespace
}  // namespace sparsmith::test
