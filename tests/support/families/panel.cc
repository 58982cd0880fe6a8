// Mistakes that kernels of the panel family may have, and their grids.
#include <algorithm>

#include "generator/families/panel/panel_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// What a kernel meets on some weight, by the facts of its packing.
Mutation::Matters some_panel(bool (*holds)(const PanelConfig&, const KernelCase&, const PackedWeight&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      // (An X of zeros hides what is lost.)
      return each.matrix.nnz() > 0 && each.inputs.kind != InputKind::kZeros &&
             holds(PanelConfig(config), each, each.packed);
    });
  };
}
bool fills_once(const PanelConfig& config, const KernelCase&, const PackedWeight&) { return !config.sweeps(); }
bool fills_again(const PanelConfig& config, const KernelCase&, const PackedWeight&) { return config.sweeps(); }
// In so many rows that some output shows it, whatever the epilog does to them.
bool several_rows(const PanelConfig&, const KernelCase& each, const PackedWeight&) {
  int rows = 0;
  for (std::int64_t row = 0; row < each.matrix.rows; ++row) rows += each.matrix.row_length(row) > 0 ? 1 : 0;
  return rows >= 8;
}
bool rows_apart(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return each.problem.spec.type == DataType::kFloat32 && each.matrix.nnz() > 100 && several_rows(config, each, packed);
}
bool sweeps(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return config.sweeps() && each.matrix.cols > packed.facts.at("width") && each.matrix.nnz() > 500 &&
         several_rows(config, each, packed);
}
bool several_rows_of_slots(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return config.store == panel::RowStore::kSlots && several_rows(config, each, packed);
}
// So many nonzeros that warps add up what others have put there.
bool some_slots(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return !config.sweeps() && packed.facts.at("slots") > 0 && each.matrix.nnz() > 500;
}
bool several_whole_rows(const PanelConfig& config, const KernelCase&, const PackedWeight& packed) {
  const auto slots = packed.array("row_slots")->as<std::uint16_t>();
  return config.store != panel::RowStore::kSlots &&
         std::ranges::count_if(slots, [](std::uint16_t slot) { return (slot & panel::kWholeRow) != 0; }) >= 8;
}
bool several_staged_rows(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return config.store == panel::RowStore::kStaged && several_whole_rows(config, each, packed);
}
bool several_rounds(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return packed.facts.at("share_steps") > config.depth && each.matrix.nnz() > 500 && each.problem.tokens > 0;
}
// Nonzeros in more than one part, so that a block that does them all writes sums again.
bool several_parts(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return config.store == panel::RowStore::kSlots && packed.facts.at("parts") > 1 &&
         packed.facts.at("column_parts") == 1 && each.matrix.nnz() > 500;
}
bool permuted_columns(const PanelConfig&, const KernelCase& each, const PackedWeight& packed) {
  return packed.facts.at("turned") == 1 &&
         std::any_of(each.matrix.column_indices.begin(), each.matrix.column_indices.end(),
                     [](std::uint32_t column) { return column % 64 >= 8; });
}
bool plain_lanes(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.products == PanelConfig::Products::kPlain && config.segment_lanes > 1 && each.matrix.nnz() > 200;
}
bool chained(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.chains(each.problem.spec) && each.matrix.nnz() > 200 && each.problem.tokens > 1;
}
bool tensor(const PanelConfig& config, const KernelCase&, const PackedWeight&) {
  return config.products == PanelConfig::Products::kTensor;
}
bool sparse_tensor(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return config.segment_lanes > 1 && tensor(config, each, packed) && each.matrix.nnz() > 200;
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

// Two blocks that fill panels together.
bool has_columns_for_both(const KernelCase& each) { return each.matrix.nnz() > 200 && each.problem.spec.cols >= 2; }
bool feature_major_pair(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.pairs() && each.problem.spec.layout == Layout::kFeatureMajor && has_columns_for_both(each);
}
bool token_major_pair(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.pairs() && each.problem.spec.layout == Layout::kTokenMajor && has_columns_for_both(each);
}
std::int64_t panels(const KernelCase& each) {
  return (each.problem.tokens - 1) / panel_tokens(each.problem.spec.type) + 1;
}
bool two_neighbours(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.input == PanelConfig::Input::kNeighbours && has_columns_for_both(each) && panels(each) > 1;
}
bool lone_neighbour(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.input == PanelConfig::Input::kNeighbours && has_columns_for_both(each) && panels(each) % 2 == 1;
}

// A block whose second panel has tokens.
bool two_panels(const PanelConfig& config, const KernelCase& each) {
  return config.panels > 1 && panels(each) > 1 && each.matrix.nnz() > 200;
}
bool two_plain_panels(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.products == PanelConfig::Products::kPlain && two_panels(config, each);
}
// Whose kernels look up early what the first of them needs.
bool several_parts_of_roomy_blocks(const PanelConfig& config, const KernelCase& each, const PackedWeight& packed) {
  return config.roomy(each.problem) && !config.sweeps() && packed.facts.at("parts") > 1 && each.matrix.nnz() > 100;
}
bool two_tensor_panels(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.products == PanelConfig::Products::kTensor && two_panels(config, each);
}
bool two_turned_panels(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.turns(each.problem.spec.layout) && two_panels(config, each);
}
bool two_relaid_panels(const PanelConfig& config, const KernelCase& each, const PackedWeight&) {
  return config.input == PanelConfig::Input::kRelayout && two_panels(config, each);
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"no barrier after the panel is filled", "    input.end();\n", "", some_panel(fills_once)},
      {"no barrier after the panel of a part of K is filled", "input.end(times++);", "++times;",
       some_panel(fills_again)},
      {"no barrier before sums are added", "first_offset);\n      block_barrier();\n", "first_offset);\n",
       some_panel(some_slots)},
      {"no barrier before sums are written again", "block_barrier();  // the sums have been read", "",
       some_panel(several_parts)},
      {"a later part takes what the first looked up", "if (!kRoomy || part != block_index_y()) {", "if (!kRoomy) {",
       some_panel(several_parts_of_roomy_blocks)},
      {"the first step is dropped", "products.multiply(stream.steps[d], rows, stride);\n        if (first",
       "if (first + d > 0) products.multiply(stream.steps[d], rows, stride);\n        if (first",
       some_panel(several_rounds)},
      {"the next step is one too far", "SPARSMITH_DEVICE void refill(int d) { steps[d] = cursor.load(d); }",
       "SPARSMITH_DEVICE void refill(int d) { steps[d] = cursor.load(d + 1); }", some_panel(several_rounds)},
      {"the second of two rows is the first", "if (e % 2 == 1) return advance_by_high_half<panel::kRowBytes>(",
       "if (e % 2 == 1) return advance_by_low_half<panel::kRowBytes>(", some_panel(rows_apart)},
      {"the last slot of a row is dropped", "slot < slots.end; ++slot", "slot + 1 < slots.end; ++slot",
       some_panel(several_rows_of_slots)},
      {"sums of earlier parts of K are dropped", "sums[i] += before[i];", "", some_panel(sweeps)},
      {"sums begin with what was there", "        if (c == 0) clear(", "        if (false) clear(", some_panel(sweeps)},
      {"panels are filled while warps gather",
       "        block_barrier();  // panels have been read, and sums are there\n",
       "        if (c + 1 == column_parts) block_barrier();\n", some_panel(sweeps)},
      {"all parts of K have the first one's columns", "x + first_column * source.column_stride", "x",
       some_panel(sweeps)},
      {"a whole row is stored one row on", "const u32 row = slot & ~kWholeRow",
       "const u32 row = (slot & ~kWholeRow) ^ 1", some_panel(several_whole_rows)},
      {"a staged row is its neighbour", "(to.staged(row, first))", "(to.staged(row ^ 1, first))",
       some_panel(several_staged_rows)},
      {"a row is stored again", "continue;  // has been stored", "", some_panel(several_whole_rows)},
      {"columns are not permuted", "SPARSMITH_DEVICE int panel_row(int column) { return (column & ~7)",
       "SPARSMITH_DEVICE int panel_row(int column) { return column; return (column & ~7)",
       some_panel(permuted_columns)},
      {"the lanes of a segment are not added", "ShuffleSum<kLanes, kSegments>::combine(sums);", "",
       some_panel(plain_lanes)},
      {"a chain goes on where another begins", "chains[i] = e == 0 ? multiply", "chains[i] = e == 2 ? multiply",
       some_panel(chained)},
      {"every other token of a chain is lost",
       "sums.values[r][2 * i + 1] += ", "sums.values[r][2 * i + 1] -= ", some_panel(chained)},
      {"weights lie in the wrong half", "second ? 0x3244U : 0x4432U", "second ? 0x4432U : 0x3244U", some_panel(tensor)},
      {"other columns are named than have weights", "const int column = group % 4;", "const int column = group / 2;",
       some_panel(sparse_tensor)},
      {"blocks fill a panel before both run", "      if (first == 0) cluster_wait();  // the partner runs\n", "",
       some_panel(feature_major_pair)},
      {"blocks turn a panel before both run", "    cluster_wait();  // the partner runs\n", "",
       some_panel(token_major_pair)},
      {"blocks gather before the partner has filled its half", "    cluster_arrive();\n    cluster_wait();\n",
       "    block_barrier();\n", some_panel(feature_major_pair)},
      {"the partner gets nothing", "if (!kNeighbours || distance != 0) store_cluster(", "if (false) store_cluster(",
       some_panel(feature_major_pair)},
      {"the partner gets no turned rows", "    Row::store(panel, row, tokens);\n    store_cluster(",
       "    Row::store(panel, row, tokens);\n    if (false) store_cluster(", some_panel(token_major_pair)},
      {"a neighbour gets tokens of another panel", "    x += distance * kTokens;", "    x -= distance * kTokens;",
       some_panel(two_neighbours)},
      {"a block without a panel goes on", "return;  // has helped its neighbour", "", some_panel(lone_neighbour)},
      {"entries meet the first panel alone",
       "load_shared<panel::RowWords>(advanced(row, p * stride));\n        }\n      }",
       "load_shared<panel::RowWords>(advanced(row, 0 * stride));\n        }\n      }", some_panel(two_plain_panels)},
      {"matrices come from the first panel alone",
       "load_matrices_transposed(advanced(row, p * stride), gathered[e][p]);",
       "load_matrices_transposed(row, gathered[e][p]);", some_panel(two_tensor_panels)},
      {"all panels have the first one's tokens", "fill(x + p * panel_stride, ldx", "fill(x, ldx",
       some_panel(two_turned_panels)},
      {"all copies bring the first panel", "bulk_copy(panels + p * stride, x + p * panel_stride,",
       "bulk_copy(panels + p * stride, x,", some_panel(two_relaid_panels)},
      {"Inf goes unseen", "if (check != 0.0F) atomic_add(", "if (false) atomic_add(",
       some_panel(tensor_meets_infinity)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  const PanelConfig config(each.config);
  const DataType type = each.problem.spec.type;
  const bool neighbours = config.input == PanelConfig::Input::kNeighbours;
  return {{.axis = 0,
           .work = n,
           .per_block = neighbours ? 2 * panel_tokens(type) : config.block_tokens(type),
           .factor = neighbours ? 2 : 1},
          {.axis = 1, .work = config.row_parts},
          parts_of_grid(config.sweeps() ? 1 : config.column_parts)};
}

const Registration kRegistered("panel", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
