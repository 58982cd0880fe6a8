#include "generator/ablation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

using testing::HasSubstr;

// A family of the name and of one kernel with these lines.
Family family_of(const std::string& name, const std::vector<KernelText::Line>& lines) {
  return {.name = name,
          .parameters = {},
          .packing_of_rows = [](const Config&, const Problem&) { return std::string("p"); },
          .kernels = [=](const Config&, const Problem&, const PackedWeight&) -> Result<PlannedKernels> {
            KernelText text;
            text.name = name + "_k";
            text.summary = "a sample";
            text.threads = 32;
            text.headers = {"snippets/device.cuh"};
            text.lines = lines;
            text.body = ";";
            PlannedKernels kernels;
            kernels.launch(text);
            return kernels;
          },
          .predict = {}};
}

Result<Candidate> without(Ablation part, const Family& of) {
  PackedWeight packed;
  packed.packing = "p";
  return generate_without(part, of, {}, {{}, 1, typical_device(90)}, packed);
}

TEST(AblationTest, PutsTypesInThePlaceOfOthers) {
  const Family bitmap = family_of("bitmap", {{"using Value = half", ""}, {"using Values = BitmapValues<4>", "of W"}});
  const auto decoded = without(Ablation::kNoDecode, bitmap);
  ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded->kernels.at(0).name, "bitmap_k_no_decode");
  EXPECT_EQ(decoded->plan.steps.at(0).kernel, "bitmap_k_no_decode");
  EXPECT_THAT(decoded->kernels[0].source, HasSubstr("outputs are wrong"));
  EXPECT_THAT(decoded->kernels[0].source, HasSubstr("using Value = half;"));
  EXPECT_THAT(decoded->kernels[0].source, HasSubstr("using Values = UndecodedStrips<BitmapValues<4>>;  // of W"));
  EXPECT_THAT(decoded->kernels[0].source, HasSubstr("// ---- snippets/ablation/undecoded_strips.cuh"));
  const Family gather = family_of("gather", {{"using Products = GatheredProducts<Input, 3>", ""}});
  const auto multiplied = without(Ablation::kNoMultiply, gather);
  ASSERT_TRUE(multiplied.ok()) << multiplied.status().to_string();
  EXPECT_THAT(multiplied->kernels.at(0).source, HasSubstr("using Products = UnmultipliedRows<Input, 3>;"));
}

TEST(AblationTest, WhatIsNotThereIsABug) {
  for (const char* line : {"using Value = half", "using Products = OtherProducts<Input, 3>"}) {
    const auto candidate = without(Ablation::kNoMultiply, family_of("gather", {{line, ""}}));
    EXPECT_EQ(candidate.status().code(), StatusCode::kInternal) << line;
    EXPECT_THAT(candidate.status().message(), HasSubstr("no multiply"));
  }
}

// As many threads and as much shared memory as the whole kernel has, over all arrays and nothing else of the weight.
void expect_copies(const PlanStep& copy, const PlanStep& whole, const Problem& problem, const PackedWeight& packed) {
  const auto blocks = [&](const PlanStep& step) {
    std::int64_t product = 1;
    for (const IntegerExpression& axis : step.grid)
      product *= axis.evaluate({.n = problem.tokens, .facts = &packed.facts}).value();
    return product;
  };
  EXPECT_EQ(blocks(copy), blocks(whole));
  EXPECT_EQ(copy.block, whole.block);
  EXPECT_EQ(copy.shared_bytes, whole.shared_bytes);
  std::set<std::string> loaded;
  for (const PlanArgument& argument : copy.arguments)
    if (argument.kind == PlanArgument::Kind::kPacked) loaded.insert(argument.name);
  EXPECT_EQ(loaded.size(), packed.arrays.size());
  for (const PackedArray& array : packed.arrays) EXPECT_TRUE(loaded.contains(array.name)) << array.name;
}

// What a family generates, whole and without each part, over what a search finds.
TEST(AblationTest, BuildsDifferByNameAndShareEverythingElse) {
  Random random(7);
  const CsrMatrix matrix = draw_matrix(random, 600, 2000, 0.2);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const auto& tested : families()) {
    SCOPED_TRACE(tested->name);
    if (ablations(*tested).empty()) continue;
    const Problem problem = problem_of(matrix, tested->name == "slots" ? 1 : 32);
    const SearchSpace space = search_space(*tested, problem, statistics);
    ASSERT_FALSE(space.configs.empty());
    const Config& config = space.configs.front().config;
    const auto packed = tested->pack(config, problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto whole = tested->generate(config, problem, *packed);
    ASSERT_TRUE(whole.ok()) << whole.status().to_string();
    for (const KernelSource& kernel : whole->kernels) EXPECT_THAT(kernel.source, Not(HasSubstr("snippets/ablation")));
    std::set<std::string> hashes;
    for (const Ablation part : ablations(*tested)) {
      SCOPED_TRACE(ablation_name(part));
      const auto without = generate_without(part, *tested, config, problem, *packed);
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
        if (part == Ablation::kCopyOnly) {
          expect_copies(step, *same, problem, *packed);
          continue;
        }
        PlanStep renamed = step;
        renamed.kernel = same->kernel;
        EXPECT_EQ(renamed, *same) << "grid, shared memory, arguments";
      }
    }
    EXPECT_EQ(hashes.size(), ablations(*tested).size());
  }
}

}  // namespace
}  // namespace sparsmith::test
