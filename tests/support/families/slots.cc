// Mistakes that kernels of the slots family may have, and their grids.
#include <algorithm>

#include "generator/families/slots/slots_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

Mutation::Matters slots(bool (*holds)(const SlotsConfig&, const Cases&)) {
  return [holds](const Config& config, const Cases& cases) { return holds(SlotsConfig(config), cases); };
}

bool always(const SlotsConfig&, const Cases&) { return true; }
bool staged(const SlotsConfig& config, const Cases&) { return config.input == SlotsConfig::Input::kShared; }
bool direct(const SlotsConfig& config, const Cases&) { return config.input == SlotsConfig::Input::kGlobal; }
bool deltas(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kDelta8; }
bool offsets(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kOffset8; }
bool several_words_of_deltas(const SlotsConfig& config, const Cases& cases) {
  return deltas(config, cases) && config.vector_width > 4;
}
bool several_words_of_offsets(const SlotsConfig& config, const Cases& cases) {
  return offsets(config, cases) && config.vector_width > 4;
}
bool halves(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kDelta4; }
bool six_bits(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kDelta6; }
bool three_bits(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kDelta3; }
bool pads_between(const SlotsConfig& config, const Cases& cases) {
  return halves(config, cases) || six_bits(config, cases) || three_bits(config, cases);
}
bool wide_tiles(const SlotsConfig& config, const Cases&) { return config.vector_width > 16; }
bool narrow_tiles(const SlotsConfig& config, const Cases&) { return config.vector_width <= 16; }
bool counted(const SlotsConfig& config, const Cases& cases) { return deltas(config, cases) || offsets(config, cases); }
bool whole_columns(const SlotsConfig& config, const Cases&) { return config.columns == SlotColumns::kUint16; }
bool staged_whole_columns(const SlotsConfig& config, const Cases& cases) {
  return staged(config, cases) && whole_columns(config, cases);
}
bool direct_whole_columns(const SlotsConfig& config, const Cases& cases) {
  return direct(config, cases) && !counted(config, cases) && !pads_between(config, cases);
}
// Some part surely has more than one group of slots.
bool has_several_groups(const SlotsConfig& config, const KernelCase& each) {
  const std::int64_t parts = config.packing(each.problem).parts;
  return each.matrix.nnz() > 64 * std::int64_t{config.vector_width} * config.tiles_per_slot * parts;
}
bool several_warps(const SlotsConfig& config, const Cases& cases) {
  return std::any_of(cases.begin(), cases.end(),
                     [&](const KernelCase& each) { return has_several_groups(config, each); });
}
// Some warp surely has more tiles than are in flight.
bool several_wide_tiles(const SlotsConfig& config, const Cases& cases) {
  return wide_tiles(config, cases) && std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
           const std::int64_t parts = config.packing(each.problem).parts;
           const std::int64_t warp_tiles = parts * config.threads_per_block / 32 * config.depth;
           return each.matrix.nnz() > (warp_tiles + parts * config.tiles_per_slot) * 32 * config.vector_width;
         });
}
// (Where x is staged, the barrier behind it stands between two passes as well.)
bool several_passes(const SlotsConfig& config, const Cases& cases) {
  return direct(config, cases) && std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
           return each.problem.tokens > config.tokens_per_pass && has_several_groups(config, each);
         });
}
// A slot has empty tiles, which stand for column 0, in rows of which some have no nonzero there: X is checked with Inf.
bool empty_tiles(const SlotsConfig& config, const Cases& cases, bool (*holds)(const SlotsConfig&, const Cases&)) {
  const auto short_rows = [&](const KernelCase& each) {
    int count = 0;
    for (std::int64_t row = 0; row < each.matrix.rows; ++row) {
      const std::int64_t length = each.matrix.row_length(row);
      if (length > 0 && length <= 4) ++count;
    }
    return count >= 8 && each.matrix.cols >= 64;
  };
  return holds(config, cases) && config.tiles_per_slot > 1 && std::any_of(cases.begin(), cases.end(), short_rows);
}
bool empty_counted_tiles(const SlotsConfig& config, const Cases& cases) { return empty_tiles(config, cases, counted); }
bool empty_padded_tiles(const SlotsConfig& config, const Cases& cases) {
  return empty_tiles(config, cases, pads_between);
}
bool multiplied_padding(const SlotsConfig& config, const Cases& cases) {
  return empty_counted_tiles(config, cases) || empty_padded_tiles(config, cases);
}

// Of a weight with X that no mistake hides in.
bool some(const Cases& cases, const std::function<bool(const PackedCase&)>& holds) {
  return std::any_of(cases.begin(), cases.end(),
                     [&](const PackedCase& each) { return each.inputs.kind == InputKind::kVaried && holds(each); });
}
bool has_heavy_parts(const SlotsConfig&, const Cases& cases) {
  return some(cases, [](const PackedCase& each) { return each.packed.facts.at("heavy_parts") > 0; });
}
// And others that have slots.
bool has_two_sizes(const SlotsConfig&, const Cases& cases) {
  return some(cases, [](const PackedCase& each) {
    return each.packed.facts.at("heavy_parts") > 0 && each.packed.facts.at("groups") > 0;
  });
}
bool has_long_rows(const SlotsConfig& config, const Cases& cases) {
  return some(cases, [&](const PackedCase& each) { return config.adds_long_rows(each.packed); });
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"the first product of a tile is dropped", "for (int e = 0; e < kVectorWidth; ++e) add_product(",
       "for (int e = 1; e < kVectorWidth; ++e) add_product(", slots(narrow_tiles)},
      {"the first of four products is dropped", "for (int i = 0; i < 4; ++i) add_product(",
       "for (int i = 1; i < 4; ++i) add_product(", slots(wide_tiles)},
      {"values of the next tile stand a part too early", "values.load_part(part,", "values.load_part(part ^ 1,",
       slots(several_wide_tiles)},
      {"the next tile's columns are used", "current.steps(e / 4)", "columns.steps(e / 4)", slots(several_wide_tiles)},
      {"two values are swapped", "multiply_add(values[e]", "multiply_add(values[e ^ 1]", slots(always)},
      {"a column is off by one", "e % 2 == 0 ? kScale : kScale << 8, 0)", "e % 2 == 0 ? kScale : kScale << 8, kScale)",
       slots(whole_columns)},
      {"the count is added as a distance", "before = e < 4 ? 1 : 0", "before = 0", slots(deltas)},
      {"distances add up within a word only", "if (kDeltas && e % 4 == 3) from", "if (kDeltas && e % 4 == 4) from",
       slots(several_words_of_deltas)},
      {"offsets add up", "if (kDeltas && e % 4 == 3) from", "if (e % 4 == 3) from", slots(several_words_of_offsets)},
      {"padding meets Inf", "warp_any(!finite)", "warp_any(false)", slots(multiplied_padding)},
      {"padding is added up again", "Columns::kPadsBetween && value == 0.0F", "false", slots(empty_padded_tiles)},
      {"distances add up within four only", "from = dot_bytes(steps, weights, before);\n    offsets[e] = from",
       "const u32 sum = dot_bytes(steps, weights, before);\n    offsets[e] = sum", slots(pads_between)},
      {"upper halves of bytes are the lower ones", "words[i / 2] >> (i % 2 * 4)", "words[i / 2]", slots(halves)},
      {"a distance keeps pieces of another", "kWhole = 0x3F", "kWhole = 0x7F", slots(six_bits)},
      {"the last four distances are halved", "return pieces >> 2", "return pieces >> 3", slots(six_bits)},
      {"a distance keeps bits of another", "kWhole = 0x07", "kWhole = 0x0F", slots(three_bits)},
      {"upper distances are the lower ones", "word(i / 2) >> (i % 2 * 3)", "word(i / 2)", slots(three_bits)},
      {"the last eight distances share their highest bits", "word(1) >> (i - 2)", "word(1) >> 4", slots(three_bits)},
      {"distances are as stored", "ThreeWords<Columns3, 32, 1>", "ThreeWords<Columns3, 32, 0>", slots(three_bits)},
      {"one nonzero more than there are", "e < count; ++e", "e <= count; ++e", slots(empty_counted_tiles)},
      {"one nonzero less than there are", "e < count; ++e", "e + 1 < count; ++e", slots(empty_counted_tiles)},
      {"two warps leave their sums in one place", "int slot = thread_index();", "int slot = lane();",
       slots(several_warps)},
      {"no barrier before slots are added up", "block_barrier();\n      sums.add_long_row(", "sums.add_long_row(",
       slots(several_warps)},
      {"no barrier before the next token", "block_barrier();  // the slots' sums and x have been read", "",
       slots(several_passes)},
      {"nobody waits for x", "  SPARSMITH_DEVICE void wait() {\n    block_barrier();",
       "  SPARSMITH_DEVICE void wait() {\n    return;", slots(staged)},
      {"padding has no zero to read", "vector[cols] = from_float<Value>(0.0F)", "vector[cols] = vector[0]",
       slots(staged_whole_columns)},
      {"padding reads behind x", "padding ? 0 : column", "column", slots(direct_whole_columns)},
      {"a row's first slot is left out", "add(begin + thread_index()", "add(begin + 1 + thread_index()", slots(always)},
      {"heavy parts are as short as the others", "part < heavy_parts ? heavy_groups : groups", "groups",
       slots(has_heavy_parts)},
      {"nobody makes room for heavy parts", "(heavy_groups - groups) * (part", "0 * (part", slots(has_two_sizes)},
      {"a warp's share of a long row is left out", "begin = slots;", "begin = slots + 1;", slots(has_long_rows)},
      {"a long row's first slots are left out", "add(thread_index(), count(row), kBlockThreads",
       "add(thread_index() + kBlockThreads, count(row), kBlockThreads", slots(has_long_rows)},
      {"no barrier behind a long row's sums", "sums.values[0]);\n      block_barrier();", "sums.values[0]);",
       slots(has_long_rows)},
      {"two rows are stored in one place", "output.store(row.row, token", "output.store(row.row & ~1U, token",
       slots(always)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight& packed, std::int64_t n) {
  return {rows_of_grid(packed.facts.at("parts"), 1), tokens_of_grid(n, each.config.at("tokens_per_pass"))};
}

const Registration kRegistered("slots", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
