// Mistakes that kernels of the sampled_regions family may have, and their grids.
#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "generator/families/sampled_regions/sampled_regions_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Matters where `shows` holds for some weight that has nonzeros.
Mutation::Matters regions(bool (*shows)(const SampledRegionsConfig&, const PackedCase&)) {
  return [shows](const Config& config, const Cases& cases) {
    return std::ranges::any_of(cases, [&](const PackedCase& each) {
      return each.matrix.nnz() > 100 && each.inputs.kind == InputKind::kVaried &&
             shows(SampledRegionsConfig(config), each);
    });
  };
}

std::int64_t steps(const PackedCase& each) {
  return ceil_div(each.problem.tokens, std::int64_t{SampledRegionsConfig::kStageTokens});
}
bool always(const SampledRegionsConfig&, const PackedCase&) { return true; }
bool aligned(const SampledRegionsConfig&, const PackedCase& each) {
  return each.inputs.padding % 8 == 0 && each.matrix.cols % 8 == 0 && each.matrix.rows % 8 == 0;
}
std::int64_t clusters(const PackedCase& each) { return std::max(1, each.problem.device.sm_count / 2); }
bool fills_stages_again(const SampledRegionsConfig&, const PackedCase& each) {
  return each.packed.facts.at("regions") / 2 * steps(each) > 3 * SampledRegionsConfig::kStages * clusters(each);
}
bool several_steps(const SampledRegionsConfig& config, const PackedCase& each) {
  return aligned(config, each) && steps(each) > 2;
}
bool several_regions(const SampledRegionsConfig&, const PackedCase& each) {
  return each.packed.facts.at("regions") > 4 * clusters(each);
}
bool several_panels(const SampledRegionsConfig&, const PackedCase& each) { return each.matrix.rows > 600; }
bool several_tiles(const SampledRegionsConfig&, const PackedCase& each) {
  return each.packed.facts.at("tiles") > 4 * each.packed.facts.at("regions");
}
bool several_columns(const SampledRegionsConfig& config, const PackedCase& each) {
  return aligned(config, each) && each.matrix.cols > 300 && several_tiles(config, each);
}
bool several_bands(const SampledRegionsConfig&, const PackedCase& each) { return each.matrix.rows > 100; }
bool whole_words(const SampledRegionsConfig&, const PackedCase& each) { return holds_whole_words(each.matrix); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"tiles are multiplied before they are there",
       "await(work.full(stage.number), stage.parity);\n      const int at", "const int at", regions(always)},
      {"a stage is filled while it is multiplied", "await(work.empty(stage.number), stage.parity ^ 1U);", "",
       regions(fills_stages_again)},
      {"the other block's stage is filled while it is multiplied",
       "arrival_barrier_init(work.empty(thread_index()), kMultipliers * kBlocks);",
       "arrival_barrier_init(work.empty(thread_index()), kMultipliers);",
       regions([](const SampledRegionsConfig& config, const PackedCase& each) {
         return aligned(config, each) && fills_stages_again(config, each);
       })},
      {"a block ends while the other one brings it dY",
       "cluster_arrive();  // no block ends while the other one brings it dY, or arrives there\n    cluster_wait();",
       "", regions(always)},
      {"stages are given back before products end", "warpgroup_multiply_wait<1>();", "", regions(fills_stages_again)},
      {"stages have one phase", "number -= kStages;\n    parity ^= 1U;", "number -= kStages;",
       regions(fills_stages_again)},
      {"products are not awaited", "warpgroup_multiply_wait();\n    if (last >= 0)", "if (last >= 0)", regions(always)},
      {"products are not begun", "warpgroup_multiply_begin();", "", regions(always)},
      {"every stage has the first tokens", "boxes, step * kStageTokens, stage.number);\n        } else",
       "boxes, 0 * kStageTokens, stage.number);\n        } else", regions(several_steps)},
      {"all panels have the first one's dY", "work.pattern.region_panels + region)) * region_masks::kPanelRows;",
       "work.pattern.region_panels)) * region_masks::kPanelRows;", regions(several_panels)},
      {"both blocks bring the first bands", "const int first = cluster_rank() * (kBands / kBlocks);",
       "const int first = 0;", regions([](const SampledRegionsConfig& config, const PackedCase& each) {
         return aligned(config, each) && each.matrix.rows > 300;
       })},
      {"bands are brought to one block", "(1U << kBlocks) - 1);\n    }", "1U << cluster_rank());\n    }",
       regions([](const SampledRegionsConfig& config, const PackedCase& each) {
         return aligned(config, each) && each.matrix.rows > 300;
       })},
      {"all columns have the first ones' X", "box_copy(work.input_at(stage, b), work.x_map, columns[b]",
       "box_copy(work.input_at(stage, b), work.x_map, columns[0]", regions(several_columns)},
      {"tensor cores need not see operands that are not aligned", "tensor_reads_follow();\n    warp_barrier();",
       "warp_barrier();",
       regions([](const SampledRegionsConfig& config, const PackedCase& each) { return !aligned(config, each); })},
      {"both warpgroups have the same tiles", "work.pattern.region_tiles + region)) + warpgroup;",
       "work.pattern.region_tiles + region));", regions(several_tiles)},
      {"operands of tiles are read before they are there", "}\n    warpgroup_barrier(warpgroup);", "}",
       regions(always)},
      {"the second band is the neighbour of the first", "distance * kBandBytes)", "kBandBytes)",
       regions(several_bands)},
      {"tiles have the first 32 columns", "+ column % 2 * (kInputLine / 2);", ";",
       regions([](const SampledRegionsConfig&, const PackedCase& each) { return each.matrix.cols > 100; })},
      {"a small grid does not go round",
       "region < work.pattern.regions; region += grid_size_x()) {\n      const int first",
       "region < work.pattern.regions; region += work.pattern.regions) {\n      const int first",
       regions(several_regions)},
      {"elements of a word stand one behind the other", "(1U << lane_index()) - 1U)", "(1U << lane_index() / 2) - 1U)",
       regions(always)},
      {"what the weight does not hold is stored", "if ((held >> lane_index() & 1U) == 0) continue;", "",
       regions(always)},
      {"rows of values have one place", "half * kRows + row) + column;", "half * kRows) + column;",
       regions(whole_words)},
      {"sums of warps have one place", "kSumsAt + warp * Values::kBytes", "kSumsAt", regions(always)},
      {"sums of the tile before are still stored", "store_runs(place, half);\n    }\n    warp_barrier();",
       "store_runs(place, half);\n    }", regions(several_tiles)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight& packed, std::int64_t /*n*/) {
  return {{.axis = 0,
           .work = std::max<std::int64_t>(packed.facts.at("regions"), 2),
           .most = std::max(2, each.problem.device.sm_count / 2 * 2)}};
}

const Registration kRegistered("sampled_regions", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
