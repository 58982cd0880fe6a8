#include "generator/ablation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/family_checks.h"

namespace sparsmith::test {
namespace {

using testing::HasSubstr;

KernelText sample_text() {
  KernelText text;
  text.name = "k";
  text.summary = "a sample";
  text.headers = {"snippets/device.cuh"};
  text.lines = {
      {"using Value = half", "of W"}, {"constexpr int kValue = 2", ""}, {"using Kernel = Whole<Value, 3>", ""}};
  return text;
}

TEST(AblatedTextTest, PutsTypesInThePlaceOfOthers) {
  KernelText text = sample_text();
  AblatedText ablated(Ablation::kNoMultiply, text);
  ablated.wrap("Value", "Unmultiplied", "a.cuh");
  ablated.replace("Kernel", "Whole<", "Copied<", "b.cuh");
  EXPECT_TRUE(ablated.status().ok()) << ablated.status().to_string();
  EXPECT_EQ(text.name, "k_no_multiply");
  EXPECT_THAT(text.summary, HasSubstr("outputs are wrong"));
  EXPECT_EQ(text.lines[0].declaration, "using Value = Unmultiplied<half>");
  EXPECT_EQ(text.lines[0].comment, "of W");
  EXPECT_EQ(text.lines[2].declaration, "using Kernel = Copied<Value, 3>");
  EXPECT_THAT(text.headers, testing::ElementsAre("snippets/device.cuh", "a.cuh", "b.cuh"));
}

TEST(AblatedTextTest, WhatIsNotThereIsABug) {
  KernelText text = sample_text();
  AblatedText line(Ablation::kNoDecode, text);
  line.wrap("Values", "Other", "a.cuh");
  EXPECT_EQ(line.status().code(), StatusCode::kInternal);
  EXPECT_THAT(line.status().message(), HasSubstr("Values"));
  text = sample_text();
  AblatedText part(Ablation::kNoDecode, text);
  part.replace("Kernel", "Half", "Other", "a.cuh");
  EXPECT_EQ(part.status().code(), StatusCode::kInternal);
  EXPECT_THAT(part.status().message(), HasSubstr("no Half"));
}

TEST(AblationTest, OnlyTheKernelsOwnStepIsKept) {
  LaunchPlan plan;
  plan.steps.resize(3);
  plan.steps[0].kind = PlanStep::Kind::kZero;
  plan.steps[1].kernel = "k";
  plan.steps[2].kernel = "finish";
  keep_kernel(plan, "k");
  ASSERT_EQ(plan.steps.size(), 1U);
  EXPECT_EQ(plan.steps[0].kernel, "k");
}

// What a family generates, whole and without each part, over what a search finds.
TEST(AblationTest, BuildsDifferByNameAndShareEverythingElse) {
  Random random(7);
  const CsrMatrix matrix = draw_matrix(random, 600, 2000, 0.2);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const auto& tested : families()) {
    SCOPED_TRACE(tested->name());
    if (tested->ablations({}).empty()) continue;
    const Problem problem = problem_of(matrix, tested->name() == "slots" ? 1 : 32);
    const SearchSpace space = search_space(*tested, problem, statistics);
    ASSERT_FALSE(space.entries.empty());
    const Config& config = space.entries.front().config;
    const auto packed = tested->pack(config, problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto whole = tested->generate(config, problem, *packed);
    ASSERT_TRUE(whole.ok()) << whole.status().to_string();
    for (const KernelSource& kernel : whole->kernels) EXPECT_THAT(kernel.source, Not(HasSubstr("snippets/ablation")));
    std::set<std::string> hashes;
    for (const Ablation part : tested->ablations(config)) {
      SCOPED_TRACE(ablation_name(part));
      const auto without = tested->generate_without(part, config, problem, *packed);
      ASSERT_TRUE(without.ok()) << without.status().to_string();
      EXPECT_EQ(without->packing, whole->packing);
      if (part == Ablation::kCopyOnly) {
        EXPECT_EQ(without->plan.steps.size(), 1U);
      } else {
        EXPECT_EQ(without->plan.steps.size(), whole->plan.steps.size());
      }
      int ablated = 0;
      for (const KernelSource& kernel : without->kernels) {
        if (!kernel.name.ends_with(ablation_key(part))) continue;
        ++ablated;
        EXPECT_THAT(kernel.source, HasSubstr("snippets/ablation"));
        hashes.insert(kernel.closure_hash);
      }
      EXPECT_EQ(ablated, 1);
      for (const PlanStep& step : without->plan.steps) {
        if (!step.kernel.ends_with(ablation_key(part))) continue;
        const auto same = std::ranges::find_if(
            whole->plan.steps, [&](const PlanStep& each) { return step.kernel.starts_with(each.kernel + "_"); });
        ASSERT_NE(same, whole->plan.steps.end());
        PlanStep renamed = step;
        renamed.kernel = same->kernel;
        EXPECT_EQ(renamed, *same) << "grid, shared memory, arguments";
      }
    }
    EXPECT_EQ(hashes.size(), tested->ablations(config).size());
  }
}

}  // namespace
}  // namespace sparsmith::test
