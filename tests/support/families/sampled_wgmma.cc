// Mistakes that kernels of the sampled_wgmma family may have, and their grids.
#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "generator/families/sampled_wgmma/sampled_wgmma_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Matters where `shows` holds for some weight that has nonzeros.
Mutation::Matters tiles(bool (*shows)(const SampledWgmmaConfig&, const PackedCase&)) {
  return [shows](const Config& config, const Cases& cases) {
    return std::ranges::any_of(cases, [&](const PackedCase& each) {
      return each.matrix.nnz() > 100 && each.inputs.kind == InputKind::kVaried &&
             shows(SampledWgmmaConfig(config), each);
    });
  };
}

std::int64_t steps(const SampledWgmmaConfig& config, const PackedCase& each) {
  return ceil_div(each.problem.tokens, std::int64_t{config.stage_tokens()});
}
bool always(const SampledWgmmaConfig&, const PackedCase&) { return true; }
bool aligned(const PackedCase& each) {
  return each.inputs.padding % 8 == 0 && each.matrix.cols % 8 == 0 && each.matrix.rows % 8 == 0;
}
bool fills_stages_again(const SampledWgmmaConfig& config, const PackedCase& each) {
  return each.packed.facts.at("groups") * steps(config, each) > 3 * config.stages() * each.problem.device.sm_count;
}
bool several_steps(const SampledWgmmaConfig& config, const PackedCase& each) { return steps(config, each) > 2; }
bool several_groups(const SampledWgmmaConfig&, const PackedCase& each) {
  return each.packed.facts.at("groups") > 2 * each.problem.device.sm_count;
}
bool several_tiles(const SampledWgmmaConfig& config, const PackedCase& each) {
  return each.packed.facts.at("tiles") > 2 * each.packed.facts.at("groups") * (64 / config.tile_columns);
}
bool several_panels(const SampledWgmmaConfig& config, const PackedCase& each) {
  return each.matrix.rows > std::int64_t{SampledWgmmaConfig::kTileRows} * config.row_tiles;
}
bool two_rows(const SampledWgmmaConfig& config, const PackedCase& each) {
  return config.row_tiles == 2 && each.matrix.rows > SampledWgmmaConfig::kTileRows;
}
bool shared(const SampledWgmmaConfig& config, const PackedCase& each) {
  return config.group_columns == 512 && several_tiles(config, each);
}
bool whole_words(const SampledWgmmaConfig&, const PackedCase& each) { return holds_whole_words(each.matrix); }
bool wide_masks(const SampledWgmmaConfig& config, const PackedCase& each) {
  return config.tile_columns == 64 && each.matrix.cols > 40;
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"tiles are multiplied before they are there",
       "await(work.full(stage.number), stage.parity);\n      const int at", "const int at", tiles(always)},
      {"a stage is filled while it is multiplied", "await(work.empty(stage.number), stage.parity ^ 1U);", "",
       tiles(fills_stages_again)},
      {"stages are given back before products end", "warpgroup_multiply_wait<1>();", "", tiles(fills_stages_again)},
      {"stages have one phase", "number -= kStages;\n    parity ^= 1U;", "number -= kStages;",
       tiles(fills_stages_again)},
      {"products are not awaited", "warpgroup_multiply_wait();\n    if (last >= 0)", "if (last >= 0)", tiles(always)},
      {"products are not begun", "warpgroup_multiply_begin();", "", tiles(always)},
      {"sums begin with another number", "sums[i] = 0.0F;", "sums[i] = 0.125F;", tiles(always)},
      {"every stage has the first tokens", "bring_boxes(work, unit, columns, step * kStageTokens",
       "bring_boxes(work, unit, columns, 0 * kStageTokens",
       tiles([](const SampledWgmmaConfig& config, const PackedCase& each) {
         return aligned(each) && several_steps(config, each);
       })},
      {"all rows of tiles have the first one's dY", "(unit.panel * kRowTiles + r) * kTileRows, token",
       "r * kTileRows, token", tiles([](const SampledWgmmaConfig& config, const PackedCase& each) {
         return aligned(each) && several_panels(config, each);
       })},
      {"both warpgroups multiply the first rows", "const int row_tile = kRowTiles > 1 ? warp / 4 : 0;",
       "const int row_tile = 0;", tiles(two_rows)},
      {"both warpgroups multiply the first columns", "kShared && warp / 4 == 1 ? half : 0", "0", tiles(shared)},
      {"all tiles have the first one's X", "first_column(work, unit, t) : 0", "first_column(work, unit, 0) : 0",
       tiles([](const SampledWgmmaConfig& config, const PackedCase& each) {
         return aligned(each) && several_tiles(config, each);
       })},
      {"tensor cores need not see operands that are not aligned", "tensor_reads_follow();\n    warp_barrier();",
       "warp_barrier();", tiles([](const SampledWgmmaConfig&, const PackedCase& each) { return !aligned(each); })},
      {"the last part of the tokens is left out", "unit.step + part_steps < steps ? unit.step + part_steps : steps;",
       "unit.step + part_steps < steps ? unit.step + part_steps : unit.step;", tiles(always)},
      {"parts have one place", "of_part.y += unit.part * part_stride;", "",
       tiles([](const SampledWgmmaConfig& config, const PackedCase&) { return config.split; })},
      {"a small grid does not go round",
       "index < work.units(); index += grid_size_x()) {\n      const Unit unit = "
       "work.unit(index);\n      // This",
       "index < work.units(); index += work.units()) {\n      const Unit unit = "
       "work.unit(index);\n      // This",
       tiles(several_groups)},
      {"the first word's elements are not counted", "places[u] += count_bits(before);", "", tiles(wide_masks)},
      {"elements of a word stand one behind the other", "(1U << lane_index()) - 1U)", "(1U << lane_index() / 2) - 1U)",
       tiles(always)},
      {"what the weight does not hold is stored", "if ((held >> lane_index() & 1U) == 0) continue;", "", tiles(always)},
      {"rows of values have one place", "half * kRows + row) + column;", "half * kRows) + column;", tiles(whole_words)},
      {"sums of warps have one place", "kSumsAt + warp * Values::kBytes", "kSumsAt", tiles(always)},
      {"sums of the word before are still stored", "store_runs(place, half);\n    }\n    warp_barrier();",
       "store_runs(place, half);\n    }", tiles(wide_masks)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight& packed, std::int64_t /*n*/) {
  const std::int64_t parts = sampled_parts(SampledWgmmaConfig(each.config), each.problem, packed.facts);
  return {{.axis = 0, .work = packed.facts.at("groups") * parts, .most = each.problem.device.sm_count}};
}

const Registration kRegistered("sampled_wgmma", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
