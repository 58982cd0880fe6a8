// What NVRTC makes of programmatic launches: the two instructions from sm_90 on, and nothing before.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "generator/families/dense/dense_family.h"
#include "generator/two_four_pruner.h"
#include "tests/support/dense_cases.h"
#include "tests/support/kernel_cases.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/verify/device_problem.h"
#include "tuner/verify/reference_kernel.h"

namespace sparsmith::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kWait = "griddepcontrol.wait";
constexpr const char* kLaunch = "griddepcontrol.launch_dependents";

// A kernel of every kind.
std::map<std::string, KernelSource> some_kernels() {
  constexpr int kKernelsOfAKind = 1;
  std::map<std::string, KernelSource> sources;
  std::map<std::string, int> kinds;
  const auto add = [&](const KernelSource& kernel) {
    const std::string kind = kernel.name.substr(0, std::min(kernel.name.find("_fp"), kernel.name.find("_bf16")));
    if (sources.contains(kernel.name) || kinds[kind] == kKernelsOfAKind) return;
    ++kinds[kind];
    sources.emplace(kernel.name, kernel);
  };
  for (const std::string& name : kernel_families()) {
    for (const KernelCase& drawn : draw_cases(*family(name), 11, 40, 1)) {
      PackedWeight packed;
      const auto candidate = generate_case(drawn, packed);
      EXPECT_TRUE(candidate.ok()) << drawn.text() << "\n" << candidate.status().to_string();
      if (!candidate.ok()) continue;
      for (const KernelSource& kernel : candidate->kernels) add(kernel);
    }
  }
  for (const KernelCase& drawn : draw_dense_epilogue_cases(11, 1)) {
    const auto candidate = dense_with_epilogue(drawn.problem.spec);
    EXPECT_TRUE(candidate.ok()) << candidate.status().to_string();
    if (candidate.ok()) add(candidate->kernels.at(0));
  }
  for (const KernelCase& drawn : draw_dense_gradient_cases(11, 1)) {
    PackedWeight packed;
    const auto candidate = generate_case(drawn, packed);
    EXPECT_TRUE(candidate.ok()) << candidate.status().to_string();
    if (candidate.ok()) add(candidate->kernels.at(0));
  }
  for (const OperatorKind kind : {OperatorKind::kSpmm, OperatorKind::kSddmm}) {
    const auto reference = reference_kernel({.type = DataType::kFloat16, .kind = kind});
    EXPECT_TRUE(reference.ok()) << reference.status().to_string();
    if (reference.ok()) add(*reference);
  }
  const auto pruner = two_four_pruner(8, 8, DataType::kFloat16, DataType::kFloat32);
  EXPECT_TRUE(pruner.ok()) << pruner.status().to_string();
  if (pruner.ok()) add(pruner->kernels.at(0));
  const auto comparison = output_comparison_kernel(DataType::kFloat32);
  EXPECT_TRUE(comparison.ok()) << comparison.status().to_string();
  if (comparison.ok()) add(*comparison);
  EXPECT_TRUE(std::ranges::any_of(kinds, [](const auto& each) { return each.first.starts_with("unpack_bitmap"); }));
  EXPECT_TRUE(std::ranges::any_of(kinds, [](const auto& each) { return each.first.starts_with("unpack_scatter"); }));
  for (const char* kind : {"rows",
                           "panel",
                           "gather",
                           "slots",
                           "bitmap",
                           "scatter",
                           "wgmma",
                           "specialized",
                           "cooperative",
                           "bsr",
                           "bsr_strips",
                           "bsr_wgmma",
                           "two_four",
                           "two_four_wgmma",
                           "bsr_wgmma_rest",
                           "bsr_strips_rest",
                           "two_four_wgmma_rest",
                           "sampled",
                           "sampled_wgmma",
                           "sampled_regions",
                           "relayout",
                           "relayout_panels",
                           "finish_rows",
                           "finish_parts",
                           "finish_values",
                           "dense_epilogue",
                           "dense_gather",
                           "prune_two_four"})
    EXPECT_GE(kinds[kind], 1) << kind;
  return sources;
}

TEST(ProgrammaticPtxTest, KernelsAllowAndWaitFromSm90On) {
  const auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const auto sources = some_kernels();
  for (const auto& [name, source] : sources) {
    const auto newer = (*compiler)->ptx(source, "compute_90");
    ASSERT_TRUE(newer.ok()) << name << "\n" << newer.status().to_string();
    EXPECT_THAT(*newer, HasSubstr(kWait)) << name;
    EXPECT_THAT(*newer, HasSubstr(kLaunch)) << name;
    EXPECT_LT(newer->find(kLaunch), newer->find(kWait)) << name;
    // Nothing may be stored in front of the wait, nor read but what is constant.
    const std::string before = newer->substr(0, newer->find(kWait));
    EXPECT_THAT(before, Not(HasSubstr("st.global"))) << name;
    for (std::size_t at = before.find("ld.global"); at != std::string::npos; at = before.find("ld.global", at + 1))
      EXPECT_EQ(before.substr(at, 12), "ld.global.nc") << name;

    if (!source.architecture.empty()) continue;  // there is no older one
    const auto older = (*compiler)->ptx(source, "compute_80");
    ASSERT_TRUE(older.ok()) << name << "\n" << older.status().to_string();
    EXPECT_THAT(*older, Not(HasSubstr("griddepcontrol"))) << name;
  }
  fmt::print("{} kernels\n", sources.size());
}

}  // namespace
}  // namespace sparsmith::test
