// Mistakes that kernels of the two_four_wgmma family may have, and their grids.
#include <algorithm>

#include "base/ceil_div.h"
#include "generator/families/two_four_wgmma/two_four_wgmma_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros.
Mutation::Matters strips(bool (*holds)(const TwoFourWgmmaConfig&, const PackedCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 300 && holds(TwoFourWgmmaConfig(config), each);
    });
  };
}

bool any_strips(const TwoFourWgmmaConfig&, const PackedCase&) { return true; }
// Another X shows in the sums: not those of a single row, which relu may hide.
bool shows(const PackedCase& each) {
  return each.inputs.kind == InputKind::kVaried && each.problem.tokens > 3 && each.matrix.nnz() > each.matrix.cols;
}
bool aligned_input(const PackedCase& each) { return each.inputs.padding % 8 == 0 && each.matrix.cols % 8 == 0; }
std::int64_t strips_of_part(const TwoFourWgmmaConfig& config, const PackedCase& each) {
  return ceil_div(each.packed.facts.at("strips"), std::int64_t{config.column_parts});
}
bool fills_stages_again(const TwoFourWgmmaConfig& config, const PackedCase& each) {
  return strips_of_part(config, each) > config.stages() + 2;
}
bool several_strips(const TwoFourWgmmaConfig& config, const PackedCase& each) {
  return strips_of_part(config, each) > 3 && shows(each);
}
bool several_outputs(const TwoFourWgmmaConfig& config, const PackedCase& each) {
  return config.cluster() == 1 && shows(each) &&
         ceil_div(each.packed.facts.at("panels"), std::int64_t{config.row_tiles}) *
                 ceil_div(each.problem.tokens, std::int64_t{config.token_tile}) >
             std::max(1, each.problem.device.sm_count / config.column_parts);
}
bool several_panels(const TwoFourWgmmaConfig& config, const PackedCase& each) {
  return config.row_tiles > 1 && each.matrix.rows > 80 && shows(each);
}
bool cluster_of_parts(const TwoFourWgmmaConfig& config, const PackedCase& each) {
  return config.cluster() > 1 && each.packed.facts.at("strips") >= config.column_parts && shows(each);
}
bool meets_infinity_in_some(const TwoFourWgmmaConfig&, const PackedCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"strips are multiplied before they are there", "await(work.full(stage.number), stage.parity);", "",
       strips(any_strips)},
      {"a stage is filled while it is multiplied", "await(work.empty(stage.number), stage.parity ^ 1U);", "",
       strips(fills_stages_again)},
      {"stages are given back before products end", "warpgroup_multiply_wait<1>();", "", strips(fills_stages_again)},
      {"stages have one phase", "number -= kStages;\n    parity ^= 1U;", "number -= kStages;",
       strips(fills_stages_again)},
      {"products are not awaited", "warpgroup_multiply_wait();\n    if (last >= 0)", "if (last >= 0)",
       strips(any_strips)},
      {"products are not begun", "warpgroup_multiply_begin();", "", strips(any_strips)},
      {"sums go on from other outputs", "sums.clear();\n      if (there)",
       "if (index == block_index_x()) sums.clear();\n      if (there)", strips(several_outputs)},
      {"a strip at an odd end is left out", "if (count % 2 != 0) multiply_next(operands[0]);", "",
       strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return config.column_parts == 1 && each.packed.facts.at("strips") % 2 == 1 && shows(each);
       })},
      {"every strip is the first", "work.tiles.at(first_panel + r, strip)",
       "work.tiles.at(first_panel + r, work.first_strip)", strips(several_strips)},
      {"both warpgroups have the first panel", "work.tiles.at(first_panel + r, strip)",
       "work.tiles.at(first_panel, strip)", strips(several_panels)},
      {"strips that do not exist are brought",
       "work.panels() - first_panel < kRowTiles ? work.panels() - first_panel : kRowTiles", "kRowTiles",
       strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return each.packed.facts.at("panels") % config.row_tiles != 0;
       })},
      {"warps have the tile of the first", "+ place.warp % 4 * two_four::kTileBytes);", ");",
       strips([](const TwoFourWgmmaConfig&, const PackedCase& each) { return each.matrix.rows > 20 && shows(each); })},
      {"both multiplications have the values of the first", "(m ^ half()) * 16", "half() * 16", strips(any_strips)},
      {"values are those of the other multiplication", "(m ^ half()) * 16", "m * 16", strips(any_strips)},
      {"both multiplications have the places of the first", "words[q] >> 4 * half()", "words[q]", strips(any_strips)},
      {"both multiplications have the columns of the first", "advanced(x, 64)", "x", strips(any_strips)},
      {"boxes of other tokens", "column, first_token, full", "column, 0, full",
       strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return aligned_input(each) && each.problem.tokens > config.token_tile + 3 && shows(each);
       })},
      {"boxes come to the block of the other columns", "1U << cluster_rank()", "1U",
       strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return cluster_of_parts(config, each) && aligned_input(each);
       })},
      {"tensor cores need not see X that is not aligned", "tensor_reads_follow();\n      warp_barrier();",
       "warp_barrier();",
       strips([](const TwoFourWgmmaConfig&, const PackedCase& each) { return !aligned_input(each); })},
      {"W is read before it may be", "wait_for_previous();  // W may be read", "",
       strips([](const TwoFourWgmmaConfig&, const PackedCase& each) { return each.programmatic && each.written; })},
      {"X is read before it may be", "wait_for_previous();  // X may be read; the first", "// the first",
       strips(
           [](const TwoFourWgmmaConfig&, const PackedCase& each) { return each.programmatic && aligned_input(each); })},
      {"sums are left in stages before all have read them", "if constexpr (kParts > 1) block_barrier();", "",
       strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return config.row_tiles > 1 && cluster_of_parts(config, each);
       })},
      {"parts of the columns do the same strips", "first_strip = block_index_z() * part_strips", "first_strip = 0",
       strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return config.column_parts > 1 && each.packed.facts.at("strips") >= config.column_parts && shows(each);
       })},
      {"parts of the columns store to one place", "static_cast<i64>(block_index_z()) * rows * n", "static_cast<i64>(0)",
       strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return config.second_kernel() && each.packed.facts.at("strips") >= config.column_parts && shows(each);
       })},
      {"rows of an output begin with the first panel", "const int row = first_panel * two_four::kPanelRows +",
       "const int row =", strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return cluster_of_parts(config, each) && each.matrix.rows > 64 * config.row_tiles + 4;
       })},
      {"warps take one place of outputs", "kOutputsAt + place.warp * Outputs::kBytes,", "kOutputsAt,",
       strips([](const TwoFourWgmmaConfig& config, const PackedCase& each) {
         return config.cluster() == 1 && each.matrix.rows > 20;
       })},
      {"Inf goes unseen", "if (!there || warpgroup_all(warp / 4, sums.finite()))", "if (true)",
       strips(meets_infinity_in_some)},
      {"nothing is taken for -0", "if (w[r].bits != nothing) sum", "sum", strips(meets_infinity_in_some)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight& packed, std::int64_t n) {
  const TwoFourWgmmaConfig config(each.config);
  const std::int64_t outputs = rows_of_grid(packed.facts.at("panels"), config.row_tiles).blocks() *
                               tokens_of_grid(n, config.token_tile).blocks();
  return {{.axis = 0, .work = outputs, .most = std::max(1, each.problem.device.sm_count / config.column_parts)},
          parts_of_grid(config.column_parts)};
}

const Registration kRegistered("two_four_wgmma", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
