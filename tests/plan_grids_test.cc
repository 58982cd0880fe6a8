// The grids of launch plans: blocks for all rows and all tokens of a weight, and none to spare. Kernels go round where
// a grid is too small, so their outputs do not show it. And the names of kernels: one name, one source.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "generator/families/panel/panel_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Of kernels in front of that and behind it.
std::vector<AxisWork> other_extents(const PlanStep& step, const KernelCase& each, const PackedWeight& packed,
                                    std::int64_t n) {
  const OperatorSpec& spec = each.problem.spec;
  const std::int64_t elements_of_16_bytes = 16 / static_cast<std::int64_t>(size_of(spec.type));
  if (step.kernel.starts_with("relayout_operands")) {
    const std::int64_t tile =
        each.config.family == "scatter" ? each.config.at("token_tile") / 8 : each.config.at("token_tiles");
    return {{.axis = 1, .work = n, .per_block = 8 * tile, .factor = tile}};
  }
  if (step.kernel.starts_with("relayout_panels")) {
    const std::int64_t panels = (n + panel_tokens(spec.type) - 1) / panel_tokens(spec.type);
    if (spec.layout == Layout::kFeatureMajor) return {rows_of_grid(panels * spec.cols, 128)};
    return {rows_of_grid(spec.cols, 128 * panel_tokens(spec.type)), tokens_of_grid(n, panel_tokens(spec.type))};
  }
  if (step.kernel.starts_with("relayout")) return {tokens_of_grid(n, 8 * elements_of_16_bytes)};
  if (step.kernel.starts_with("finish_rows")) return {rows_of_grid(packed.facts.at("split_rows") * n, 256)};
  if (step.kernel.starts_with("finish_parts")) return {rows_of_grid(spec.rows * n, 256)};
  if (step.kernel.starts_with("finish_values")) return {rows_of_grid(spec.nnz, 256)};
  if (step.kernel.starts_with("dense_epilogue")) {
    const std::int64_t tokens = 4;  // of a thread
    return {rows_of_grid(spec.rows * ((n + tokens - 1) / tokens), 256)};
  }
  if (step.kernel.starts_with("gated")) {
    const std::int64_t width = step.kernel.back() - '0';  // outputs of a thread
    return {rows_of_grid(spec.output_rows() / width * n, 256)};
  }
  for (auto known = known_families().rbegin(); known != known_families().rend(); ++known)  // the structured part's
    if (step.kernel.starts_with(known->first + "_")) return known->second.grid(each, packed, n);
  ADD_FAILURE() << step.kernel << " is not known here";
  return {};
}

class PlanGridsTest : public testing::TestWithParam<std::string> {};

TEST_P(PlanGridsTest, CoverAllRowsAndTokensAndNoMore) {
  const std::uint64_t seed = seed_of_run();
  SCOPED_TRACE(fmt::format("SPARSMITH_TEST_SEED={}", seed));
  const Family& tested = *family(GetParam());
  ASSERT_TRUE(known_families().contains(GetParam())) << "tests/families has no file of it";
  const KnownFamily& known = known_families().at(GetParam());
  int steps = 0;
  for (KernelCase each : draw_cases(tested, seed, 24, 3)) {
    each.small_grid = false;
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    std::int64_t last_workspace = 0;
    for (const std::int64_t n : {1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 1024, 5000}) {
      const IntegerVariables variables{
          .n = n,
          .strides = {{"x", 1 << 20}, {"y", 1 << 20}, {"residual", 1 << 20}, {"dy", 1 << 20}},
          .facts = &packed.facts};
      const std::int64_t workspace = candidate->plan.workspace_bytes.evaluate(variables).value();
      EXPECT_GE(workspace, last_workspace) << each.text();
      last_workspace = workspace;
      for (const PlanStep& step : candidate->plan.steps) {
        if (step.kind == PlanStep::Kind::kZero) {
          const std::int64_t end =
              step.zero_offset.evaluate(variables).value() + step.zero_bytes.evaluate(variables).value();
          if (each.problem.spec.epilogue.gated) {
            EXPECT_LE(end, workspace) << each.text();  // what is gated stands behind
          } else {
            EXPECT_EQ(end, workspace) << each.text();
          }
          continue;
        }
        if (step.kind == PlanStep::Kind::kMatmul) {
          if (step.weight) EXPECT_LT(step.weight->evaluate(variables).value(), workspace) << each.text();
          continue;
        }
        for (const PlanArgument& argument : step.arguments) {
          if (argument.kind == PlanArgument::Kind::kWorkspace) {
            // Where no row is cut, nothing is behind the partial sums' beginning.
            const std::int64_t none = packed.facts.contains("slots") && packed.facts.at("slots") == 0 ? 1 : 0;
            EXPECT_LT(argument.value.evaluate(variables).value(), std::max<std::int64_t>(workspace + none, 1))
                << each.text();
          }
        }
        const bool own = step.kernel.starts_with(GetParam() + "_");
        for (const AxisWork& extent : own ? known.grid(each, packed, n) : other_extents(step, each, packed, n)) {
          EXPECT_EQ(step.grid[extent.axis].evaluate(variables).value(), extent.blocks())
              << step.kernel << ", axis " << extent.axis << ", N = " << n << "; " << each.text();
        }
        ++steps;
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(steps, 500);
}

// A kernel is known by its name: weights that share the name share the binary.
TEST_P(PlanGridsTest, ANameOfAKernelHasOneSource) {
  const std::uint64_t seed = seed_of_run();
  SCOPED_TRACE(fmt::format("SPARSMITH_TEST_SEED={}", seed));
  std::vector<KernelCase> cases = draw_cases(*family(GetParam()), seed, 24, 6);
  if (GetParam() == "rows") std::ranges::move(draw_coded_cases(seed, 24, 6), std::back_inserter(cases));
  std::map<std::string, std::string> sources;
  for (const KernelCase& each : cases) {
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    for (const KernelSource& kernel : candidate->kernels)
      ASSERT_EQ(sources.emplace(kernel.name, kernel.source).first->second, kernel.source) << each.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PlanGridsTest, testing::ValuesIn(kernel_families()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace sparsmith::test
