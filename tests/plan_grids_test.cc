// The grids of launch plans: blocks for all rows and all tokens of a weight, and none to spare. Kernels go round where
// a grid is too small, so their outputs do not show it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "generator/bitmap_family.h"
#include "generator/bsr_family.h"
#include "generator/gather_family.h"
#include "generator/panel_family.h"
#include "generator/rows_family.h"
#include "generator/sampled_family.h"
#include "generator/scatter_family.h"
#include "generator/slots_family.h"
#include "generator/specialized_family.h"
#include "generator/two_four_family.h"
#include "generator/wgmma_family.h"
#include "tests/kernel_cases.h"

namespace sparsmith::test {
namespace {

constexpr std::int64_t kMostBlocks = 65535;  // of a grid's y

// How `blocks` blocks side by side share out `work`: all of it is covered, with less than a block to spare.
struct AxisWork {
  int axis = 0;
  std::int64_t work = 0;
  std::int64_t per_block = 1;
  std::int64_t factor = 1;  // blocks for each `per_block`
  std::int64_t most = kMostBlocks;

  std::int64_t blocks() const {
    std::int64_t needed = 0;
    while (needed * per_block < work) ++needed;
    return std::min(std::max<std::int64_t>(needed * factor, 1), most);
  }
};

AxisWork tokens(std::int64_t n, std::int64_t tile) { return {.axis = 1, .work = n, .per_block = tile}; }
AxisWork rows(std::int64_t count, std::int64_t per_block, std::int64_t factor = 1) {
  return {.axis = 0, .work = count, .per_block = per_block, .factor = factor};
}

// The grid of a family's own kernel.
std::vector<AxisWork> family_extents(const KernelCase& each, const PackedWeight& packed, std::int64_t n) {
  const Config& config = each.config;
  const OperatorSpec& spec = each.problem.spec;
  if (config.family == "rows") {
    const RowsConfig rows_config(config);
    const std::int64_t groups = rows_config.threads_per_block / rows_config.group_threads();
    AxisWork segments = rows(packed.facts.at("segments"), groups * rows_config.rows_per_group);
    if (rows_config.blocks_per_sm > 0)
      segments.most = std::int64_t{rows_config.blocks_per_sm} * each.problem.device.sm_count;
    return {segments, tokens(n, rows_config.token_lanes * rows_config.tokens_per_thread)};
  }
  if (config.family == "sampled") {
    const SampledConfig sampled(config);
    return {rows(spec.rows, sampled.threads_per_block / sampled.group_threads())};
  }
  if (config.family == "slots") return {rows(packed.facts.at("parts"), 1), tokens(n, config.at("tokens_per_pass"))};
  if (config.family == "gather")
    return {rows(config.at("row_parts"), 1), tokens(n, GatherConfig(config).tile_tokens(spec.type))};
  if (config.family == "panel") {
    const PanelConfig panel(config);
    const bool neighbours = panel.input == PanelConfig::Input::kNeighbours;
    return {{.axis = 0,
             .work = n,
             .per_block = neighbours ? 2 * panel_tokens(spec.type) : panel.block_tokens(spec.type),
             .factor = neighbours ? 2 : 1},
            {.axis = 1, .work = panel.row_parts},
            {.axis = 2, .work = panel.sweeps() ? 1 : panel.column_parts}};
  }
  std::vector<AxisWork> extents;
  if (config.family == "bitmap")
    extents = {rows(spec.rows, BitmapConfig(config).rows()), tokens(n, 8 * config.at("token_tiles"))};
  if (config.family == "bsr")
    extents = {rows(spec.rows, BsrConfig(config).rows()), tokens(n, 8 * config.at("token_tiles"))};
  if (config.family == "two_four")
    extents = {rows(spec.rows, TwoFourConfig(config).rows()), tokens(n, 8 * config.at("token_tiles"))};
  if (config.family == "scatter")
    extents = {rows(spec.rows, ScatterConfig(config).rows(), config.at("parts")), tokens(n, config.at("token_tile"))};
  if (config.family == "specialized")
    extents = {rows(spec.rows, SpecializedConfig(config).rows()), tokens(n, config.at("token_tile"))};
  if (config.family == "wgmma") extents = {rows(spec.rows, WgmmaConfig(config).rows()), tokens(n, 64)};
  const auto parts = config.values.find("column_parts");
  extents.push_back({.axis = 2, .work = parts == config.values.end() ? 1 : parts->second});
  return extents;
}

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
    if (spec.layout == Layout::kFeatureMajor) return {rows(panels * spec.cols, 128)};
    return {rows(spec.cols, 128 * panel_tokens(spec.type)), tokens(n, panel_tokens(spec.type))};
  }
  if (step.kernel.starts_with("relayout")) return {tokens(n, 8 * elements_of_16_bytes)};
  if (step.kernel.starts_with("finish_rows")) return {rows(packed.facts.at("split_rows") * n, 256)};
  if (step.kernel.starts_with("finish_parts")) return {rows(spec.rows * n, 256)};
  ADD_FAILURE() << step.kernel << " is not known here";
  return {};
}

class PlanGridsTest : public testing::TestWithParam<std::string> {};

TEST_P(PlanGridsTest, CoverAllRowsAndTokensAndNoMore) {
  const std::uint64_t seed = seed_of_run();
  SCOPED_TRACE(fmt::format("SPARSMITH_TEST_SEED={}", seed));
  const Family& tested = *family(GetParam());
  int steps = 0;
  for (KernelCase each : draw_cases(tested, seed, 24, 3)) {
    each.small_grid = false;
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    std::int64_t last_workspace = 0;
    for (const std::int64_t n : {1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 1024, 5000}) {
      const IntegerVariables variables{
          .n = n, .strides = {{"x", 1 << 20}, {"y", 1 << 20}, {"residual", 1 << 20}}, .facts = &packed.facts};
      const std::int64_t workspace = candidate->plan.workspace_bytes.evaluate(variables).value();
      EXPECT_GE(workspace, last_workspace) << each.text();
      last_workspace = workspace;
      for (const PlanStep& step : candidate->plan.steps) {
        if (step.kind == PlanStep::Kind::kZero) {
          const std::int64_t end =
              step.zero_offset.evaluate(variables).value() + step.zero_bytes.evaluate(variables).value();
          EXPECT_EQ(end, workspace) << each.text();
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
        for (const AxisWork& extent : own ? family_extents(each, packed, n) : other_extents(step, each, packed, n)) {
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

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const auto& each : families()) names.push_back(each->name());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, PlanGridsTest, testing::ValuesIn(family_names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace sparsmith::test
