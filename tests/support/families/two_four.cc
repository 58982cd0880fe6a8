// Mistakes that kernels of the two_four family may have, and their grids.
#include <algorithm>

#include "generator/families/two_four/two_four_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

Mutation::Matters two_four(bool (*holds)(const TwoFourConfig&, const KernelCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
      return each.matrix.nnz() > 200 && holds(TwoFourConfig(config), each);
    });
  };
}
bool any_weight(const TwoFourConfig&, const KernelCase&) { return true; }
bool async_copies(const TwoFourConfig& config, const KernelCase&) { return !config.bulk_copies; }
// How many slots a ring has is data.
bool two_slots(const TwoFourConfig& config, const KernelCase& each) {
  return !config.bulk_copies && TwoFourConfig(each.config).stages_that_fit(each.problem.device) == 2 &&
         each.matrix.cols > 64 * 2 * config.warps * config.column_parts;
}
bool bulk_copies(const TwoFourConfig& config, const KernelCase&) { return config.bulk_copies; }
bool direct(const TwoFourConfig& config, const KernelCase&) { return !config.relayout; }
bool laid_out(const TwoFourConfig& config, const KernelCase&) { return config.relayout; }
bool cluster_of_parts(const TwoFourConfig& config, const KernelCase&) { return config.cluster; }
bool several_parts(const TwoFourConfig& config, const KernelCase& each) {
  return config.column_parts > 1 && each.matrix.cols > 64 * 2;
}
bool parts_of_a_launch(const TwoFourConfig& config, const KernelCase& each) {
  return several_parts(config, each) && !config.cluster;
}
bool strips_go_round(const TwoFourConfig& config, const KernelCase& each) {
  return each.matrix.cols > 64 * 5 * config.warps * config.column_parts;
}
bool bulk_strips_go_round(const TwoFourConfig& config, const KernelCase& each) {
  return config.bulk_copies && strips_go_round(config, each);
}
bool operands_go_round(const TwoFourConfig& config, const KernelCase& each) {
  return config.relayout && strips_go_round(config, each);
}
bool vectors_go_round(const TwoFourConfig& config, const KernelCase& each) {
  return !config.relayout && each.problem.spec.layout == Layout::kTokenMajor &&
         each.matrix.cols > 64 * 2 * config.warps * config.column_parts && each.matrix.cols % 8 == 0 &&
         each.inputs.padding % 8 == 0;
}
bool several_blocks(const TwoFourConfig& config, const KernelCase& each) { return each.matrix.rows > config.rows(); }
// A block's next rows begin in another slot than the first.
bool bulk_ring_again(const TwoFourConfig& config, const KernelCase& each) {
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t strips_of_part = ceil_div(ceil_div(each.matrix.cols, 64), config.column_parts);
  return config.bulk_copies && several_blocks(config, each) &&
         ceil_div(strips_of_part, config.warps) % TwoFourConfig(each.config).stages_that_fit(each.problem.device) != 0;
}
bool rows_of_several_warps(const TwoFourConfig& config, const KernelCase& each) {
  return config.row_warps > 1 && each.matrix.rows > config.warp_rows() + 4;
}
bool rows_without_panel(const TwoFourConfig& config, const KernelCase& each) {
  return config.rows() > 64 && each.matrix.rows <= 64;
}
bool several_tiles(const TwoFourConfig& config, const KernelCase& each) {
  return config.tiles > 1 && each.matrix.rows > 20;
}
bool infinity(const TwoFourConfig&, const KernelCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier before a slot is copied over", "    warp_barrier();\n    copy_next<false>(slot);",
       "    copy_next<false>(slot);", two_four(strips_go_round)},
      {"no barrier after a strip has landed", "    warp_barrier();\n    return slots", "    return slots",
       two_four(async_copies)},
      {"strips are not awaited", "case 2: async_wait<1>()", "case 2: async_wait<2>()", two_four(two_slots)},
      {"bulk copies are not awaited", "    bulk_wait_in_warp(barriers + slot, phase);\n", "", two_four(bulk_copies)},
      {"the phase never turns", "phase ^= 1;", "", two_four(bulk_strips_go_round)},
      {"every lane copies the strip", "if (copies && lane_index() == 0)", "if (copies)", two_four(bulk_copies)},
      {"the metadata is not copied", "units = Tiles::kBytes / 16", "units = kTiles * 64", two_four(any_weight)},
      {"strips are those of the neighbour", "next += kWarps * two_four::kStripBytes", "next += two_four::kStripBytes",
       two_four(strips_go_round)},
      {"the first copies go to the wrong slots", "copy_next<true>(slot);", "copy_next<true>(0);",
       two_four(bulk_ring_again)},
      {"parts of K do the same strips", "first_strip = block_index_z() * part_strips", "first_strip = 0",
       two_four(several_parts)},
      {"parts of K store to one place", "static_cast<i64>(block_index_z()) * rows * n", "static_cast<i64>(0)",
       two_four(parts_of_a_launch)},
      {"what other blocks send is not awaited", "cluster_arrive();\n      cluster_wait();\n    }", "}",
       two_four(cluster_of_parts)},
      {"no barrier before sums take the ring's place", "block_barrier();  // the ring has been read", "",
       two_four(several_blocks)},
      {"no barrier before sums are written again", "block_barrier();  // the sums have been read", "",
       two_four(several_blocks)},
      {"sums of the last warp are dropped", "warp < kWarps; ++warp", "warp < kWarps - 1; ++warp",
       two_four(strips_go_round)},
      {"every row has the sums of the first warps", "row % kRows / kWarpRows * (kWarps * Sums::kWarpSums)", "0",
       two_four(rows_of_several_warps)},
      {"panels that do not exist are read", "row_tile * kWarpRows < work.rows ? work.end_strip : begin",
       "work.end_strip", two_four(rows_without_panel)},
      {"every tile has the metadata of the first", "metadata[r] = Tiles::metadata(tiles, r)",
       "metadata[r] = Tiles::metadata(tiles, 0)", two_four(several_tiles)},
      {"both multiplications have the places of the first", "template add<kStep>(sums", "template add<0>(sums",
       two_four(any_weight)},
      {"lanes exchange what they keep", "shuffle_xor_word(odd ? first : last, 1)",
       "shuffle_xor_word(odd ? last : first, 1)", two_four(direct)},
      {"the wrong lanes exchange", "first : last, 1)", "first : last, 2)", two_four(direct)},
      {"operands of X are those of the strip before", "input.advance(kWarps * two_four::kStripColumns);", "",
       two_four(vectors_go_round)},
      {"operands that were laid out are those of the strip before", "next += columns / kStripColumns * kStripBytes;",
       "", two_four(operands_go_round)},
      {"both multiplications have one operand", "next + tile * kTileBytes + kStep * operands::kChunkBytes",
       "next + tile * kTileBytes", two_four(laid_out)},
      {"Inf goes unseen", "if (sum * 0.0F == 0.0F) return sum;", "return sum;", two_four(infinity)},
      {"nothing is taken for -0", "if (weight.bits == two_four::kNothing) continue;", "", two_four(infinity)},
      {"the first value counts for both", "(places >> 2 & 3U) == place ? 1 : 0", "0", two_four(infinity)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  return {rows_of_grid(each.problem.spec.rows, TwoFourConfig(each.config).rows()),
          tokens_of_grid(n, 8 * each.config.at("token_tiles")), parts_of_grid(each.config.at("column_parts"))};
}

const Registration kRegistered("two_four", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
