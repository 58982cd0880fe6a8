// What the emulator is for: a kernel with one mistake in it is caught. Each drawn kernel is broken in every way that
// its code allows, and some weight must show it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "generator/bitmap_family.h"
#include "generator/panel_family.h"
#include "generator/rows_family.h"
#include "generator/scatter_family.h"
#include "tests/kernel_cases.h"

namespace sparsmith::testing {
namespace {

using Cases = std::vector<KernelCase>;  // of one kernel

struct Mutation {
  const char* name;
  const char* from;  // text that stands once in the kernel
  const char* to;
  // Whether the mistake changes what a kernel of this config does on some of these weights.
  std::function<bool(const Config&, const Cases&)> matters;
};

std::function<bool(const Config&, const Cases&)> rows(bool (*holds)(const RowsConfig&, const Cases&)) {
  return [holds](const Config& config, const Cases& cases) { return holds(RowsConfig(config), cases); };
}

bool always(const RowsConfig&, const Cases&) { return true; }
bool several_nonzeros_a_load(const RowsConfig& config, const Cases&) { return config.vector_width > 1; }
bool one_nonzero_a_load(const RowsConfig& config, const Cases&) { return config.vector_width == 1; }
bool shared_parts(const RowsConfig& config, const Cases&) { return config.shared_parts > 1; }
bool panel(const RowsConfig& config, const Cases&) { return config.input == RowsConfig::Input::kShared; }
bool token_major_panel(const RowsConfig& config, const Cases& cases) {
  return panel(config, cases) && cases.front().problem.spec.layout == Layout::kTokenMajor;
}
bool feature_major_panel(const RowsConfig& config, const Cases& cases) {
  return panel(config, cases) && cases.front().problem.spec.layout == Layout::kFeatureMajor;
}
bool several_groups(const RowsConfig& config, const Cases&) {
  return config.group_threads() < config.threads_per_block && config.partial_sums == PartialSums::kNone;
}
// Some block goes round for a second token tile, or a second set of rows, when there is one block only. (Where parts
// are added through shared memory, their barriers stand between two tiles as well.)
bool panel_twice(const RowsConfig& config, const Cases& cases) {
  const auto goes_round = [&](const KernelCase& each) {
    return each.problem.tokens > config.token_tile() && each.matrix.nnz() > 0;
  };
  return panel(config, cases) && !shared_parts(config, cases) && std::any_of(cases.begin(), cases.end(), goes_round);
}
bool shared_parts_twice(const RowsConfig& config, const Cases& cases) {
  const int rows_a_round = config.threads_per_block / config.group_threads() * config.rows_per_group;
  return shared_parts(config, cases) && std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
           return each.matrix.rows > rows_a_round;
         });
}

const std::vector<Mutation>& rows_mutations() {
  static const std::vector<Mutation> all = {
      {"the first product of a load is dropped", "for (int e = 0; e < kVectorWidth; ++e) product(",
       "for (int e = 1; e < kVectorWidth; ++e) product(", rows(always)},
      {"two columns are swapped", "static_cast<u32>(fragment.columns[e])", "static_cast<u32>(fragment.columns[e ^ 1])",
       rows(several_nonzeros_a_load)},
      {"a column is off by one", "static_cast<u32>(fragment.columns[e])", "static_cast<u32>(fragment.columns[e] ^ 1)",
       rows(one_nonzero_a_load)},
      {"the load is one vector too far", "stream.load(begin[r] + at", "stream.load(begin[r] + kVectorWidth + at",
       rows(always)},
      {"the tail is omitted", "if (at + e < length) product", "if (false) product", rows(several_nonzeros_a_load)},
      {"the tail runs over", "if (at + e < length) product", "product", rows(several_nonzeros_a_load)},
      {"every other group leaves its rows to its neighbour", "const int first = base + group * kRows;",
       "const int first = base + (group | 1) * kRows;", rows(several_groups)},
      {"two groups store to one row", "output.store(target, first_token", "output.store(target & ~1U, first_token",
       rows(always)},
      {"no barrier after staging", "    block_barrier();\n  }", "  }", rows(panel)},
      {"no barrier before staging again", "block_barrier();  // nobody reads the last tile's panel any more", "",
       rows(panel_twice)},
      {"every thread stages everything", "for (int v = thread_index(); v < vectors", "for (int v = 0; v < vectors",
       rows(token_major_panel)},
      {"every thread stages everything", "for (int i = thread_index(); i < cols", "for (int i = 0; i < cols",
       rows(feature_major_panel)},
      {"no barrier before parts are added", "block_barrier();\n      if (part", "if (part", rows(shared_parts)},
      {"no barrier before parts are written again", "block_barrier();  // the last round's sums have been read", "",
       rows(shared_parts_twice)},
      {"all parts write to one place", "shared[(part * kSums + i) * kOwners + lane] = sums",
       "shared[i * kOwners + lane] = sums", rows(shared_parts)},
  };
  return all;
}

// What a kernel meets on some weight, by the facts of its packing.
std::function<bool(const Config&, const Cases&)> some_panel(bool (*holds)(const PanelConfig&, const KernelCase&,
                                                                          const PackedWeight&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
      PackedWeight packed;
      return generate_case(each, packed).ok() && each.matrix.nnz() > 0 && holds(PanelConfig(config), each, packed);
    });
  };
}
bool any_nonzero(const PanelConfig&, const KernelCase&, const PackedWeight&) { return true; }
bool several_rounds(const PanelConfig& config, const KernelCase&, const PackedWeight& packed) {
  return packed.facts.at("share_steps") > config.depth;
}
// Nonzeros in more than one part, so that a block that does them all writes sums again.
bool several_parts(const PanelConfig&, const KernelCase& each, const PackedWeight& packed) {
  return packed.facts.at("parts") > 1 && packed.facts.at("column_parts") == 1 && each.matrix.nnz() > 500;
}
bool permuted_columns(const PanelConfig&, const KernelCase& each, const PackedWeight&) {
  return std::any_of(each.matrix.column_indices.begin(), each.matrix.column_indices.end(),
                     [](std::uint32_t column) { return column % 64 >= 8; });
}
bool plain_lanes(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.products == PanelConfig::Products::kPlain && config.segment_lanes > 1 && each.matrix.nnz() > 200;
}
bool tensor(const PanelConfig& config, const KernelCase&, const PackedWeight&) {
  return config.products == PanelConfig::Products::kTensor;
}
// Every weight is checked with Inf and NaN in the first column and the last; here many rows have nothing there, and
// share tasks with some that do.
bool tensor_meets_infinity(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  int touched = 0;
  int others = 0;
  for (std::int64_t row = 0; row < each.matrix.rows; ++row) {
    const auto begin = each.matrix.column_indices.begin() + each.matrix.row_offsets[row];
    const auto end = each.matrix.column_indices.begin() + each.matrix.row_offsets[row + 1];
    if (begin == end) continue;
    const bool touches = *begin == 0 || *(end - 1) + 1 == each.matrix.cols;
    ++(touches ? touched : others);
  }
  return config.products == PanelConfig::Products::kTensor && touched >= 8 && others >= 8 && each.matrix.nnz() > 200;
}

const std::vector<Mutation>& panel_mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier after the panel is filled",
       "    block_barrier();\n    output.y +=", "    output.y +=", some_panel(any_nonzero)},
      {"no barrier before sums are added", "infinite);\n      block_barrier();\n", "infinite);\n",
       some_panel(any_nonzero)},
      {"no barrier before sums are written again", "block_barrier();  // the sums have been read", "",
       some_panel(several_parts)},
      {"the first step is dropped", "          products.multiply(", "          if (first + d > 0) products.multiply(",
       some_panel(any_nonzero)},
      {"the next step is one too far", "SPARSMITH_DEVICE void refill(int d) { steps[d] = load_streaming(next +",
       "SPARSMITH_DEVICE void refill(int d) { steps[d] = load_streaming(next + panel::kWarpLanes +",
       some_panel(several_rounds)},
      {"the last slot of a row is dropped", "slot < end; ++slot", "slot + 1 < end; ++slot", some_panel(any_nonzero)},
      {"columns are not permuted", "SPARSMITH_DEVICE int panel_row(int column) { return (column & ~7)",
       "SPARSMITH_DEVICE int panel_row(int column) { return column; return (column & ~7)",
       some_panel(permuted_columns)},
      {"the lanes of a segment are not added", "ShuffleSum<kLanes, kSegments>::combine(sums);", "",
       some_panel(plain_lanes)},
      {"weights lie in the wrong half", "group % 2 == 0 ? 0x4432U : 0x3244U", "group % 2 != 0 ? 0x4432U : 0x3244U",
       some_panel(tensor)},
      {"Inf goes unseen", "if (check != 0.0F) atomic_add(", "if (false) atomic_add(",
       some_panel(tensor_meets_infinity)},
  };
  return all;
}

std::function<bool(const Config&, const Cases&)> bitmap(bool (*holds)(const BitmapConfig&, const KernelCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
      return each.matrix.nnz() > 200 && holds(BitmapConfig(config), each);
    });
  };
}
bool any_weight(const BitmapConfig&, const KernelCase&) { return true; }
bool async_copies(const BitmapConfig& config, const KernelCase&) { return !config.bulk_copies; }
bool bulk_copies(const BitmapConfig& config, const KernelCase&) { return config.bulk_copies; }
bool merged_pairs(const BitmapConfig& config, const KernelCase&) { return config.token_tiles > 1; }
bool split_halves(const BitmapConfig& config, const KernelCase&) { return config.token_tiles == 1; }
bool bulk_strips_go_round(const BitmapConfig& config, const KernelCase& each) {
  return config.bulk_copies && each.matrix.cols > 64 * 5 * config.warps;
}
bool several_column_parts(const BitmapConfig& config, const KernelCase& each) {
  return config.column_parts > 1 && each.matrix.cols > 64 * 2 && each.problem.tokens > 0;
}
bool bulk_ring_again(const BitmapConfig& config, const KernelCase& each) {
  return config.bulk_copies && each.matrix.rows > config.rows() && each.matrix.nnz() > 0;
}
bool scanned(const BitmapConfig& config, const KernelCase&) { return !config.stored_offsets; }
bool strips_go_round(const BitmapConfig& config, const KernelCase& each) {
  return each.matrix.cols > 64 * 5 * config.warps;
}
bool vectors_go_round(const BitmapConfig& config, const KernelCase& each) {
  return each.problem.spec.layout == Layout::kTokenMajor && each.matrix.cols > 64 * 3 * config.warps &&
         each.matrix.cols % 8 == 0 && each.inputs.padding % 8 == 0;
}
bool several_row_tiles(const BitmapConfig& config, const KernelCase& each) { return each.matrix.rows > config.rows(); }
// Every weight is checked with Inf and NaN in the first column and the last; here a row has nothing there.
bool meets_infinity(const KernelCase& each) {
  for (std::int64_t row = 0; row < each.matrix.rows; ++row) {
    const auto begin = each.matrix.column_indices.begin() + each.matrix.row_offsets[row];
    const auto end = each.matrix.column_indices.begin() + each.matrix.row_offsets[row + 1];
    if (begin == end || (*begin != 0 && *(end - 1) + 1 != each.matrix.cols)) return true;
  }
  return false;
}

bool bitmap_meets_infinity(const BitmapConfig&, const KernelCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& bitmap_mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier before a slot is copied over", "    warp_barrier();\n    copy_next(slot);", "    copy_next(slot);",
       bitmap(strips_go_round)},
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
       bitmap(several_column_parts)},
      {"every lane copies the strip", "bounds.take(from, units) && lane_index() == 0", "bounds.take(from, units)",
       bitmap(bulk_copies)},
      {"half of a strip is copied", "from, units * bitmap::kUnitBytes, barriers", "from, units / 2 * 16, barriers",
       bitmap(bulk_copies)},
      {"the first copies go to the wrong slots",
       "copy_next(slot + stage < stages ? slot + stage : slot + stage - stages)", "copy_next(stage)",
       bitmap(bulk_ring_again)},
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
      {"Inf goes unseen", "if (warp_any(!is_finite(x)))", "if (false)", bitmap(bitmap_meets_infinity)},
  };
  return all;
}

// Some weight of several hundred nonzeros, and at least so many.
std::function<bool(const Config&, const Cases&)> scatter(bool (*holds)(const ScatterConfig&, const KernelCase&),
                                                         std::int64_t nonzeros = 200) {
  return [holds, nonzeros](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const KernelCase& each) {
      return each.matrix.nnz() > nonzeros && holds(ScatterConfig(config), each);
    });
  };
}
bool any_tiles(const ScatterConfig&, const KernelCase&) { return true; }
bool byte_entries(const ScatterConfig& config, const KernelCase&) { return config.entry == ScatterEntry::kByte; }
bool late_rounds(const ScatterConfig& config, const KernelCase& each) {
  const auto packed = pack_scatter(each.matrix, config.packing(), each.problem.spec.type);
  return packed.ok() && packed->facts.at("rounds_max") > config.max_rounds;
}
bool late_byte_rounds(const ScatterConfig& config, const KernelCase& each) {
  return config.entry == ScatterEntry::kByte && late_rounds(config, each);
}
bool late_word_rounds(const ScatterConfig& config, const KernelCase& each) {
  return config.entry == ScatterEntry::kWord && late_rounds(config, each);
}
bool several_tiles(const ScatterConfig& config, const KernelCase& each) {
  return each.matrix.cols > std::int64_t{2} * config.warps * config.tile_columns();
}
bool several_row_blocks(const ScatterConfig& config, const KernelCase& each) {
  return each.matrix.rows > config.tile_rows;
}
bool scatter_meets_infinity(const ScatterConfig&, const KernelCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& scatter_mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier before partial sums take the tiles' place", "block_barrier();  // nobody needs a tile any more", "",
       scatter(any_tiles)},
      {"no barrier before partial sums are added", "block_barrier();\n        finish(", "finish(", scatter(any_tiles)},
      {"no barrier before tiles take their place again",
       "block_barrier();  // the last row block's partial sums have been read", "", scatter(several_row_blocks)},
      {"the sums of the last warp are dropped", "w < kWarps; ++w", "w < kWarps - 1; ++w", scatter(any_tiles)},
      {"a tile is not cleared", "list.clear(entries, tile);", "", scatter(several_tiles)},
      {"chunks are not where they were put", "^ (row % 8)) * 16)", "^ (row % 4)) * 16)", scatter(any_tiles)},
      {"the second value is the first", "values >> (16 * i)", "values", scatter(byte_entries, 2000)},
      {"rounds beyond the registers are dropped", "r < rounds; ++r) {\n      const u32 word",
       "r < 0; ++r) {\n      const u32 word", scatter(late_word_rounds)},
      {"rounds beyond the registers are dropped", "r < rounds; r += 2) {\n      const u32* group",
       "r < 0; r += 2) {\n      const u32* group", scatter(late_byte_rounds)},
      {"Inf goes unseen", "if (!finite(sums))", "if (false)", scatter(scatter_meets_infinity)},
  };
  return all;
}

const std::vector<Mutation>& mutations(const std::string& family) {
  if (family == "bitmap") return bitmap_mutations();
  if (family == "scatter") return scatter_mutations();
  return family == "rows" ? rows_mutations() : panel_mutations();
}

std::string mutated(const std::string& source, const Mutation& mutation) {
  std::string text = source;
  const std::size_t at = text.find(mutation.from);
  if (at != std::string::npos) text.replace(at, std::string_view(mutation.from).size(), mutation.to);
  return text;
}

// Whether some case of a kernel fails with the mutation in it; whole again, every one passes.
bool caught(const Cases& cases, const Mutation& mutation, const std::shared_ptr<CpuKernelCompiler>& compiler) {
  auto executor = make_emulated_executor({.compiler = compiler});
  const ImageOf image_of = [&](const KernelSource& kernel) -> Result<KernelImage> {
    const bool broken = kernel.name.starts_with(cases.front().config.family + "_");
    return KernelImage{
        kernel.name, broken ? mutated(kernel.source, mutation) : kernel.source, {}, kernel.max_shared_bytes};
  };
  for (KernelCase each : cases) {
    for (const bool small_grid : {true, false}) {
      each.small_grid = small_grid;
      if (!run_case(each, **executor, image_of).ok()) return true;
    }
  }
  return false;
}

class KernelMutantsTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(KernelMutantsTest, AreCaught) {
  const auto& [tested, part] = GetParam();
  const int drawn = tested == "rows" ? 32 : tested == "panel" ? 24 : 6;
  const std::uint64_t seed = 100 + static_cast<std::uint64_t>(part);
  auto made = make_jit_compiler();
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const std::shared_ptr<CpuKernelCompiler> compiler = std::move(*made);

  std::map<std::string, Cases> kernels;  // by the config and operator that make the text
  for (const KernelCase& each : draw_cases(*family(tested), seed, drawn, kWeightKinds)) {
    PackedWeight packed;
    const auto candidate = generate_case(each, packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    for (const KernelSource& kernel : candidate->kernels)
      if (kernel.name.starts_with(tested + "_")) kernels[kernel.name].push_back(each);
  }
  std::map<std::string, int> count;
  for (const auto& [name, cases] : kernels) {
    PackedWeight packed;
    const auto candidate = generate_case(cases.front(), packed);
    const Config& config = cases.front().config;
    for (const Mutation& mutation : mutations(tested)) {
      if (!mutation.matters(config, cases)) continue;
      std::string text;
      for (const KernelSource& kernel : candidate->kernels)
        if (kernel.name.starts_with(tested + "_")) text = kernel.source;
      ASSERT_NE(mutated(text, mutation), text) << mutation.name << ": the kernel has changed, the mutation must follow";
      EXPECT_TRUE(caught(cases, mutation, compiler))
          << mutation.name << " in " << name << ", " << cases.size() << " weights";
      ++count[mutation.name];
    }
  }
  for (const auto& [name, times] : count) fmt::print("{:4} {}\n", times, name);
}

INSTANTIATE_TEST_SUITE_P(Rows, KernelMutantsTest,
                         ::testing::Combine(::testing::Values("rows"), ::testing::Range(0, 2)));
INSTANTIATE_TEST_SUITE_P(Bitmap, KernelMutantsTest,
                         ::testing::Combine(::testing::Values("bitmap"), ::testing::Range(0, 1)));
INSTANTIATE_TEST_SUITE_P(Panel, KernelMutantsTest,
                         ::testing::Combine(::testing::Values("panel"), ::testing::Range(0, 1)));
INSTANTIATE_TEST_SUITE_P(Scatter, KernelMutantsTest,
                         ::testing::Combine(::testing::Values("scatter"), ::testing::Range(0, 1)));

}  // namespace
}  // namespace sparsmith::testing
