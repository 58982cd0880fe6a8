// Mistakes that kernels of the bitmap family may have, and their grids.
#include <algorithm>

#include "formats/row_parts.h"
#include "generator/families/bitmap/bitmap_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

Mutation::Matters bitmap(bool (*holds)(const BitmapConfig&, const KernelCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
      return each.matrix.nnz() > 200 && holds(BitmapConfig(config), each);
    });
  };
}
Mutation::Matters bitmap(bool (*holds)(const BitmapConfig&, const PackedCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 200 && holds(BitmapConfig(config), each);
    });
  };
}
bool any_weight(const BitmapConfig&, const KernelCase&) { return true; }
bool async_copies(const BitmapConfig& config, const KernelCase&) { return !config.bulk_copies; }
bool bulk_copies(const BitmapConfig& config, const KernelCase&) { return config.bulk_copies; }
bool merged_pairs(const BitmapConfig& config, const KernelCase&) { return config.token_tiles > 1; }
bool split_halves(const BitmapConfig& config, const KernelCase&) { return config.token_tiles == 1; }
bool cluster_of_parts(const BitmapConfig& config, const KernelCase&) { return config.cluster; }
bool parts_of_a_launch(const BitmapConfig& config, const KernelCase& each) {
  return config.column_parts > 1 && !config.cluster && each.matrix.cols > 64 * 2;
}
bool several_column_parts(const BitmapConfig& config, const KernelCase& each) {
  return config.column_parts > 1 && each.matrix.cols > 64 * 2 && each.problem.tokens > 0;
}
bool scanned(const BitmapConfig& config, const KernelCase&) { return !config.stored_offsets; }
bool strips_go_round(const BitmapConfig& config, const KernelCase& each) {
  return each.matrix.cols > 64 * 5 * config.warps * config.column_parts;
}
bool bulk_strips_go_round(const BitmapConfig& config, const KernelCase& each) {
  return config.bulk_copies && strips_go_round(config, each);
}
bool laid_out(const BitmapConfig& config, const KernelCase&) { return config.relayout; }
bool operands_go_round(const BitmapConfig& config, const KernelCase& each) {
  return config.relayout && strips_go_round(config, each) && each.inputs.kind == InputKind::kVaried;
}
bool several_operand_blocks(const BitmapConfig& config, const KernelCase& each) {
  return config.relayout && each.problem.tokens > config.tokens() && each.inputs.kind == InputKind::kVaried;
}
bool vectors_go_round(const BitmapConfig& config, const KernelCase& each) {
  return !config.relayout && each.problem.spec.layout == Layout::kTokenMajor &&
         each.matrix.cols > 64 * 3 * config.warps * config.column_parts && each.matrix.cols % 8 == 0 &&
         each.inputs.padding % 8 == 0;
}
bool several_row_tiles(const BitmapConfig& config, const KernelCase& each) { return each.matrix.rows > config.rows(); }
bool bulk_ring_again(const BitmapConfig& config, const KernelCase& each) {
  return config.bulk_copies && several_row_tiles(config, each);
}
std::int64_t first_strips(const PackedCase& each) { return each.packed.facts.at("first_strips"); }
bool two_first_strips(const BitmapConfig& config, const PackedCase& each) {
  return config.column_parts == 1 && first_strips(each) > config.warps;
}
bool first_strips_of_row_tiles(const BitmapConfig& config, const PackedCase& each) {
  return first_strips(each) > 0 && several_row_tiles(config, each);
}
// Of a warp: its bounds hold none.
bool one_first_strip(const BitmapConfig& config, const PackedCase& each) {
  return config.warps == bitmap::kFirstStrips && first_strips(each) > 0;
}
std::int64_t strips_of_part(const BitmapConfig& config, const PackedCase& each) {
  return (each.packed.facts.at("strips") + config.column_parts - 1) / config.column_parts;
}
bool early_others(const BitmapConfig& config, const PackedCase& each) {
  if (config.column_parts > 1) return strips_of_part(config, each) >= first_strips(each);
  return each.packed.facts.at("strips") > first_strips(each) && first_strips(each) < 2 * config.warps;
}
bool dealt_rows(const BitmapConfig& config, const KernelCase& each) {
  return !std::ranges::is_sorted(deal_row_parts(each.matrix.row_offsets, config.tiles));
}
bool bitmap_meets_infinity(const BitmapConfig&, const KernelCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier before a slot is copied over", "    warp_barrier();\n    copy_next<false>(slot);",
       "    copy_next<false>(slot);", bitmap(strips_go_round)},
      {"no barrier after a strip has landed", "    warp_barrier();\n    return slots", "    return slots",
       bitmap(async_copies)},
      {"strips are not awaited", "case 2: async_wait<1>()", "case 2: async_wait<2>()", bitmap(async_copies)},
      {"bulk copies are not awaited", "    bulk_wait_in_warp(barriers + slot, phase);\n", "", bitmap(bulk_copies)},
      {"the phase before is awaited", "bulk_wait_in_warp(barriers + slot, phase)",
       "bulk_wait_in_warp(barriers + slot, phase ^ 1)", bitmap(bulk_copies)},
      {"the phase never turns", "phase ^= 1;", "", bitmap(bulk_strips_go_round)},
      {"no barrier before the ring is used", "block_barrier();  // extras are 0, and the ring is ready", "",
       bitmap(bulk_copies)},
      {"parts of K do the same strips", "first_strip = block_index_z() * part_strips", "first_strip = 0",
       bitmap(several_column_parts)},
      {"parts of K store to one place", "static_cast<i64>(block_index_z()) * rows * n", "static_cast<i64>(0)",
       bitmap(parts_of_a_launch)},
      {"what other blocks send is not awaited", "cluster_arrive();\n      cluster_wait();\n    }", "}",
       bitmap(cluster_of_parts)},
      {"every lane copies the strip", "if (copies && lane_index() == 0)", "if (copies)", bitmap(bulk_copies)},
      {"half of a strip is copied", "from, units * bitmap::kUnitBytes, barriers", "from, units / 2 * 16, barriers",
       bitmap(bulk_copies)},
      {"the first copies go to the wrong slots", "copy_next<true>(slot);", "copy_next<true>(0);",
       bitmap(bulk_ring_again)},
      {"a warp's first strips lie at one place", "early_begin += static_cast<u32>(kWarps * first_units);", "",
       bitmap(two_first_strips)},
      {"first strips are those of the first row tile", "(row_tile * first_strips + begin) * first_units",
       "begin * first_units", bitmap(first_strips_of_row_tiles)},
      {"first strips lie where offsets say", "early >= first_strips) return take", "true) return take",
       bitmap(one_first_strip)},
      {"others lie where their numbers say", "early >= first_strips) return take", "false) return take",
       bitmap(early_others)},
      {"no barrier before sums take the ring's place", "block_barrier();  // the ring has been read", "",
       bitmap(several_row_tiles)},
      {"no barrier before sums are written again", "block_barrier();  // the sums have been read", "",
       bitmap(several_row_tiles)},
      {"sums of the last warp are dropped", "warp < kWarps; ++warp", "warp < kWarps - 1; ++warp", bitmap(any_weight)},
      {"the scan forgets a step", "distance = 1; distance < bitmap::kLanes", "distance = 1; distance < 16",
       bitmap(scanned)},
      {"two registers are swapped", "permute_bytes(v[2], v[3]", "permute_bytes(v[4], v[5]", bitmap(merged_pairs)},
      {"halves are swapped", "permute_bytes(v[6], v[7]", "permute_bytes(v[7], v[6]", bitmap(merged_pairs)},
      {"two registers are swapped", "low[4] = {v[0], v[2]", "low[4] = {v[2], v[0]", bitmap(split_halves)},
      {"high halves meet the low columns", "sums.add(r, j, high, b0 >> 16", "sums.add(r, j, high, b0",
       bitmap(split_halves)},
      {"operands of X are those of the strip before", "input.advance(kWarps * bitmap::kStripColumns);\n          ring",
       "ring", bitmap(vectors_go_round)},
      {"operands that were laid out are those of the strip before", "next += columns / kStripColumns * kStripBytes;",
       "", bitmap(operands_go_round)},
      {"both halves of a strip have one operand", "next + tile * kTileBytes + kStep * operands::kChunkBytes",
       "next + tile * kTileBytes", bitmap(laid_out)},
      {"all tokens have the operands of the first", "static_cast<i64>(block) * this->strips +", "",
       bitmap(several_operand_blocks)},
      {"rows are not where they were dealt to", "first_rows[row_of(i) / bitmap::kTileRows]",
       "first_rows[0] + row_of(i) / bitmap::kTileRows * 16", bitmap(dealt_rows)},
      {"first rows are not awaited", "        async_wait<0>();  // for the first rows\n", "",
       bitmap(several_row_tiles)},
      {"Inf goes unseen", "if (warp_any(!is_finite(x)))", "if (false)", bitmap(bitmap_meets_infinity)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  return {rows_of_grid(each.problem.spec.rows, BitmapConfig(each.config).rows()),
          tokens_of_grid(n, 8 * each.config.at("token_tiles")), parts_of_grid(each.config.at("column_parts"))};
}

const Registration kRegistered("bitmap", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
