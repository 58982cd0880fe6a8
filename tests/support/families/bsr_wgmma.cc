// Mistakes that kernels of the bsr_wgmma family may have, and their grids.
#include <algorithm>

#include "base/ceil_div.h"
#include "generator/families/bsr_wgmma/bsr_wgmma_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros.
Mutation::Matters blocks(bool (*holds)(const BsrWgmmaConfig&, const PackedCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 300 && holds(BsrWgmmaConfig(config), each);
    });
  };
}

bool any_blocks(const BsrWgmmaConfig&, const PackedCase&) { return true; }
bool several_rows(const BsrWgmmaConfig&, const PackedCase& each) { return each.packed.facts.at("block_rows") > 2; }
bool fills_stages_again(const BsrWgmmaConfig& config, const PackedCase& each) {
  return each.packed.facts.at("blocks") > 2 * config.stages() * each.packed.facts.at("block_rows");
}
// Two rows of blocks that share stages.
bool in_pairs(const BsrWgmmaConfig& config, const PackedCase& each) {
  return config.row_tiles > 1 && several_rows(config, each);
}
bool several_outputs(const BsrWgmmaConfig& config, const PackedCase& each) {
  return ceil_div(each.packed.facts.at("block_rows"), std::int64_t{config.row_tiles}) *
             ceil_div(each.problem.tokens, std::int64_t{config.token_tile}) >
         2 * each.problem.device.sm_count;
}
bool aligned_input(const PackedCase& each) { return each.inputs.padding % 8 == 0 && each.matrix.cols % 8 == 0; }
// Another X shows in the sums: not those of a single row, which relu may hide.
bool shows(const PackedCase& each) {
  return each.inputs.kind == InputKind::kVaried && each.problem.tokens > 3 && each.matrix.nnz() > each.matrix.cols;
}
bool moved_halves(const BsrWgmmaConfig& config, const PackedCase& each) {
  return config.packing().halves() && !std::ranges::is_sorted(each.packed.array("half_rows")->as<std::uint32_t>());
}
// Warps store the outputs of two halves together that are not neighbours.
bool stores_moved_halves(const BsrWgmmaConfig& config, const PackedCase& each) {
  const Epilogue& epilogue = each.problem.spec.epilogue;
  if (!config.packing().halves() || epilogue.beta || epilogue.residual || each.problem.tokens < config.token_tile ||
      each.inputs.padding % 8 != 0 || each.matrix.rows % 8 != 0 || !shows(each))
    return false;
  const auto halves = each.packed.array("half_rows")->as<std::uint32_t>();
  for (std::size_t i = 0; i < halves.size(); i += 2)
    if (halves[i] + 1 != halves[i + 1] && (std::max(halves[i], halves[i + 1]) + 1) * 32 <= each.matrix.rows)
      return true;
  return false;
}
bool meets_infinity_in_some(const BsrWgmmaConfig&, const PackedCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"blocks are multiplied before they are there", "await(work.full(stage.number), stage.parity);", "",
       blocks(any_blocks)},
      {"a stage is filled while it is multiplied", "await(work.empty(stage.number), stage.parity ^ 1U);", "",
       blocks(fills_stages_again)},
      {"stages are given back before products end", "warpgroup_multiply_wait<1>();", "", blocks(fills_stages_again)},
      {"a skipped stage's product is not awaited", "warpgroup_multiply_wait();\n      give_back(work, last);",
       "give_back(work, last);", blocks([](const BsrWgmmaConfig& config, const PackedCase& each) {
         return in_pairs(config, each) && fills_stages_again(config, each);
       })},
      {"stages have one phase", "number -= kStages;\n    parity ^= 1U;", "number -= kStages;",
       blocks(fills_stages_again)},
      {"products are not awaited", "warpgroup_multiply_wait();\n      if (last >= 0)", "if (last >= 0)",
       blocks(any_blocks)},
      {"products are not begun", "warpgroup_multiply_begin();", "", blocks(any_blocks)},
      {"sums go on from other outputs", "sums.clear();\n      int last",
       "if (index == block_index_x()) sums.clear();\n      int last", blocks(several_outputs)},
      {"rows of a stage are read by lanes that do not give it back", "lane() == 0 ? *work.row_mask(stage.number) : 0",
       "*work.row_mask(stage.number)", blocks(in_pairs)},
      {"boxes of other tokens", "column, first_token, full", "column, 0, full",
       blocks([](const BsrWgmmaConfig& config, const PackedCase& each) {
         return aligned_input(each) && each.problem.tokens > config.token_tile + 3 && shows(each);
       })},
      {"tensor cores need not see X that is not aligned", "tensor_reads_follow();\n      warp_barrier();",
       "warp_barrier();", blocks([](const BsrWgmmaConfig&, const PackedCase& each) { return !aligned_input(each); })},
      {"W is read before it may be", "wait_for_previous();  // W may be read", "",
       blocks([](const BsrWgmmaConfig&, const PackedCase& each) {
         return each.programmatic && each.written && shows(each);
       })},
      {"X is read before it may be", "wait_for_previous();  // X may be read; the first", "// the first",
       blocks([](const BsrWgmmaConfig&, const PackedCase& each) { return each.programmatic && aligned_input(each); })},
      {"every block is the row's last", "cursors[r].block)", "cursors[r].end - 1)", blocks(several_rows)},
      {"both rows have the first one's blocks", "block_at(stage, r)", "block_at(stage, 0)", blocks(in_pairs)},
      {"halves are neighbours", "load_cached(half_rows + place)", "place", blocks(moved_halves)},
      {"outputs of both halves are neighbours", "halves[1] - halves[0]}", "Outputs::kRows * 2}",
       blocks(stores_moved_halves)},
      {"warps take one place of outputs", "kOutputsAt + warp * Outputs::kBytes,", "kOutputsAt,", blocks(several_rows)},
      {"Inf goes unseen", "if (warpgroup_all(warp / 4, sums.finite()))", "if (true)", blocks(meets_infinity_in_some)},
      {"nothing is taken for -0", "if (w[r].bits != nothing) sum", "sum", blocks(meets_infinity_in_some)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight& packed, std::int64_t n) {
  const BsrWgmmaConfig config(each.config);
  const AxisWork rows = rows_of_grid(packed.facts.at("block_rows"), config.row_tiles);
  const std::int64_t outputs = rows.blocks() * tokens_of_grid(n, config.token_tile).blocks();
  return {{.axis = 0, .work = outputs, .most = each.problem.device.sm_count}, parts_of_grid(1)};
}

const Registration kRegistered("bsr_wgmma", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
