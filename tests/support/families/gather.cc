// Mistakes that kernels of the gather family may have, and their grids.
#include <algorithm>

#include "generator/families/gather/gather_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// What a kernel meets on some weight, by the facts of its packing.
Mutation::Matters gather(bool (*holds)(const GatherConfig&, const KernelCase&, const PackedWeight&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 100 && holds(GatherConfig(config), each, each.packed);
    });
  };
}
bool gathers_any(const GatherConfig&, const KernelCase&, const PackedWeight&) { return true; }
bool gathers_several_rounds(const GatherConfig& config, const KernelCase&, const PackedWeight& packed) {
  return packed.facts.at("share_steps") > config.depth;
}
bool gathers_several_parts(const GatherConfig&, const KernelCase& each, const PackedWeight& packed) {
  return packed.facts.at("parts") > 1 && each.matrix.nnz() > 500;
}
bool gathers_by_several_teams(const GatherConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.segment_lanes > 1 && each.matrix.nnz() > 200;
}
// What a launch before has turned is read by whole vectors.
bool gathers_chains(const GatherConfig&, const KernelCase& each, const PackedWeight&) {
  return each.problem.spec.accumulation == Accumulation::kFp16Chains && each.matrix.nnz() > 200 &&
         each.problem.tokens > 1;
}
bool gathers_vectors(const KernelCase& each) { return each.problem.spec.layout == Layout::kTokenMajor; }
// (Of X as it lies, padding names a row behind the last.)
bool gathers_nothing_somewhere(const GatherConfig&, const KernelCase& each, const PackedWeight& packed) {
  const std::int64_t lane_tokens = 16 / static_cast<std::int64_t>(size_of(each.problem.spec.type));
  return packed.facts.at("padding") > 0 && each.problem.spec.layout == Layout::kFeatureMajor &&
         each.problem.tokens % lane_tokens == 0 && each.inputs.padding % lane_tokens == 0;
}
bool gathers_ahead(const GatherConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return config.ahead == 1 && packed.facts.at("share_steps") > 1 && gathers_vectors(each);
}
bool gathers_by_several_lanes(const GatherConfig& config, const KernelCase& each, const PackedWeight&) {
  const std::int64_t lane_tokens = config.tile_tokens(each.problem.spec.type) / config.token_lanes;
  return config.token_lanes > 1 && each.problem.tokens > lane_tokens;
}
// (Blocks of columns are the packing's affair: they differ between the cases of a kernel.)
bool gathers_in_sweeps(const GatherConfig&, const KernelCase& each, const PackedWeight& packed) {
  const std::int64_t columns = packed.facts.at("sweep_columns");
  return columns > 0 && each.matrix.cols > columns && each.matrix.nnz() > 200;
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier before sums are added", "block_barrier();  // the sums are there", "", gather(gathers_any)},
      {"no barrier before sums are written again", "block_barrier();  // the sums have been read", "",
       gather(gathers_several_parts)},
      {"the first step is dropped", "            products.multiply(",
       "            if (first + d > 0) products.multiply(", gather(gathers_any)},
      {"the next step is one too far", "SPARSMITH_DEVICE void refill(int d) { steps[d] = cursor.load(d); }",
       "SPARSMITH_DEVICE void refill(int d) { steps[d] = cursor.load(d + 1); }", gather(gathers_several_rounds)},
      {"the last slot of a row is dropped", "slot < slots.end; ++slot", "slot + 1 < slots.end; ++slot",
       gather(gathers_any)},
      {"the teams of a segment are not added", "Share::combine(sums.values[0], lane);", "",
       gather(gathers_by_several_teams)},
      {"every other token of a chain is lost",
       "sums.values[r][2 * i + 1] += ", "sums.values[r][2 * i + 1] -= ", gather(gathers_chains)},
      {"a team keeps what it sends", "const bool upper = (lane & round) != 0;", "const bool upper = false;",
       gather(gathers_by_several_teams)},
      {"padding is read", "load_coherent_if(column < columns, from)", "load_coherent_if(true, from)",
       gather(gathers_nothing_somewhere)},
      {"rows are asked for where others wait to be used", "rows[(d + 1) % 2]);", "rows[d % 2]);",
       gather(gathers_ahead)},
      {"every lane of a team brings the same tokens", "tile_first + thread_index() % kTeamLanes * kTokens;",
       "tile_first;", gather(gathers_by_several_lanes)},
      {"sums of earlier columns are dropped", "if (adds) {", "if (false) {", gather(gathers_in_sweeps)},
      {"quads of sums meet", "% (kTile / 4) * 4", "% (kTile / 8) * 4", gather(gathers_by_several_lanes)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  const GatherConfig config(each.config);
  return {rows_of_grid(each.config.at("row_parts"), 1), tokens_of_grid(n, config.tile_tokens(each.problem.spec.type))};
}

const Registration kRegistered("gather", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
