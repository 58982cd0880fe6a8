// Mistakes that kernels of the scatter family may have, and their grids.
#include <algorithm>

#include "generator/families/scatter/scatter_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros, and at least so many.
Mutation::Matters scatter(bool (*holds)(const ScatterConfig&, const PackedCase&), std::int64_t nonzeros = 200) {
  return [holds, nonzeros](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > nonzeros && holds(ScatterConfig(config), each);
    });
  };
}
bool any_tiles(const ScatterConfig&, const PackedCase&) { return true; }
bool byte_entries(const ScatterConfig& config, const PackedCase&) { return config.entry == ScatterEntry::kByte; }
bool late_rounds(const ScatterConfig& config, const PackedCase& each) {
  return each.packed.facts.at("rounds_max") > config.max_rounds;
}
bool late_byte_rounds(const ScatterConfig& config, const PackedCase& each) {
  return config.entry == ScatterEntry::kByte && late_rounds(config, each);
}
bool late_word_rounds(const ScatterConfig& config, const PackedCase& each) {
  return config.entry == ScatterEntry::kWord && late_rounds(config, each);
}
bool several_tiles(const ScatterConfig& config, const PackedCase& each) {
  return each.matrix.cols > std::int64_t{2} * config.parts * config.warps * config.tile_columns();
}
bool several_row_blocks(const ScatterConfig& config, const PackedCase& each) {
  return each.matrix.rows > config.rows();
}
bool tiles_one_after_another(const ScatterConfig& config, const PackedCase& each) {
  return several_tiles(config, each) || (config.row_tiles == 2 && each.matrix.rows > config.tile_rows);
}
bool second_row_tiles(const ScatterConfig& config, const PackedCase& each) {
  return config.row_tiles == 2 && config.min_rounds > 0 && each.matrix.rows > config.tile_rows;
}
bool tiles_for_several_parts(const ScatterConfig& config, const PackedCase& each) {
  return config.parts > 1 && each.matrix.cols > config.tile_columns();
}
bool several_parts(const ScatterConfig& config, const PackedCase&) { return config.parts > 1; }
bool several_parts_and_row_blocks(const ScatterConfig& config, const PackedCase& each) {
  return config.parts > 1 && several_row_blocks(config, each);
}
// A warp without tiles neither fills nor clears any.
bool tiles_for_all_warps(const ScatterConfig& config, const PackedCase& each) {
  return each.matrix.cols > std::int64_t{config.parts * config.warps - 1} * config.tile_columns();
}
bool several_row_blocks_for_all_warps(const ScatterConfig& config, const PackedCase& each) {
  return several_row_blocks(config, each) && tiles_for_all_warps(config, each);
}
bool several_fuller_tiles(const ScatterConfig& config, const PackedCase& each) {
  return several_tiles(config, each) && each.packed.facts.at("rounds_p95") > config.min_rounds;
}
bool dealt_rows(const ScatterConfig&, const PackedCase& each) {
  const auto first_rows = each.packed.array("row_parts")->as<std::uint32_t>();
  return !std::is_sorted(first_rows.begin(), first_rows.end());
}
bool operands_go_round(const ScatterConfig& config, const PackedCase& each) {
  return config.relayout && several_tiles(config, each) && each.inputs.kind == InputKind::kVaried;
}
bool several_operands(const ScatterConfig& config, const PackedCase& each) {
  return config.relayout && config.token_tile > 8 && config.input_columns > 32 && each.problem.tokens > 8 &&
         each.inputs.kind == InputKind::kVaried;
}
bool several_operand_blocks(const ScatterConfig& config, const PackedCase& each) {
  return config.relayout && each.problem.tokens > config.token_tile && each.inputs.kind == InputKind::kVaried;
}
bool natural_columns(const ScatterConfig& config, const PackedCase&) { return config.natural; }
bool natural_columns_meet_infinity(const ScatterConfig& config, const PackedCase& each) {
  return config.natural && stores_infinity(each);
}
bool scatter_meets_infinity(const ScatterConfig&, const PackedCase& each) { return meets_infinity(each); }
bool scatter_stores_infinity(const ScatterConfig&, const PackedCase& each) { return stores_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier before partial sums take the tiles' place", "block_barrier();  // nobody needs a tile any more", "",
       scatter(tiles_for_all_warps)},
      {"no barrier before partial sums are added", "block_barrier();\n        parts.exchange(", "parts.exchange(",
       scatter(any_tiles)},
      {"no barrier before tiles take their place again",
       "block_barrier();  // the partial sums have been read: tiles may take their place", "",
       scatter(several_row_blocks_for_all_warps)},
      {"the sums of the last warp are dropped", "w < kWarps; ++w", "w < kWarps - 1; ++w", scatter(any_tiles)},
      {"a tile is not cleared", "list.clear(tiles.weight, base);", "", scatter(tiles_one_after_another, 3000)},
      {"chunks are not where they were put", "^ (row % 8)) * 16)", "^ (row % 4)) * 16)", scatter(any_tiles)},
      {"the second value is the first", "store_shared_high_if(there, at[1]", "store_shared_low_if(there, at[1]",
       scatter(byte_entries, 2000)},
      {"rounds beyond the registers are dropped", "r < list.count; ++r) {\n      const u32 word",
       "r < 0; ++r) {\n      const u32 word", scatter(late_word_rounds)},
      {"rounds beyond the registers are dropped", "r < rounds; r += 2) {\n      const u32 values",
       "r < 0; r += 2) {\n      const u32 values", scatter(late_byte_rounds)},
      {"a tile's further entries are another's", "if (kRow == kRowTiles - 1) next += kStride;", "",
       scatter(several_fuller_tiles)},
      {"offsets are not awaited", "for (int i = none; i < 1; ++i) async_wait<0>();",
       "for (int i = none; i < 1; ++i) {}", scatter(any_tiles)},
      {"the second row block's tiles are the first's", "fixed + kRow * block_bytes", "fixed",
       scatter(second_row_tiles)},
      {"what other blocks have summed up is dropped", "p == part ? own : sent[p * kOwn + output - part * kOwn]",
       "p == part ? own : 0.0F", scatter(tiles_for_several_parts)},
      {"sums are sent to blocks that may not run",
       "cluster_wait();  // the others run, and have read what was sent before", "", scatter(several_parts)},
      {"what other blocks send is not awaited", "cluster_arrive();\n      cluster_wait();\n    }", "}",
       scatter(several_parts)},
      {"sums are sent where others still read", "if (used) cluster_arrive();", "",
       scatter(several_parts_and_row_blocks)},
      {"rows are not where they were dealt to", "first_rows[row_of(i) / scatter::kPartRows]",
       "first_rows[0] + row_of(i) / scatter::kPartRows * 16", scatter(dealt_rows)},
      {"operands that were laid out are those of the columns before",
       "void skip() { next += kChunks * kTiles * operands::kChunkBytes; }", "void skip() {}",
       scatter(operands_go_round, 1000)},
      {"columns are taken for tokens", "next + (u * kTiles + i) * operands", "next + (i * kChunks + u) * operands",
       scatter(several_operands)},
      {"all tokens have the operands of the first", "static_cast<i64>(first_token / kTokens) * input.strips", "0",
       scatter(several_operand_blocks)},
      {"lanes exchange half of their words", "for (int bit = 1; bit <= 2; bit *= 2)",
       "for (int bit = 1; bit < 2; bit *= 2)", scatter(natural_columns)},
      {"Inf is looked for in another column", "(Input::kNatural ? i", "(false ? i",
       scatter(natural_columns_meet_infinity)},
      {"Inf goes unseen", "if (!finite(sums))", "if (false)", scatter(scatter_meets_infinity)},
      {"Inf in X is dropped where W is stored", "if ((w.bits & 0x7FFFU) == 0) continue;",
       "if ((w.bits & 0x7FFFU) == 0 || !is_finite(x)) continue;", scatter(scatter_stores_infinity)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  return {rows_of_grid(each.problem.spec.rows, ScatterConfig(each.config).rows(), each.config.at("parts")),
          tokens_of_grid(n, each.config.at("token_tile")), parts_of_grid(1)};
}

const Registration kRegistered("scatter", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
