// Mistakes that kernels of the unpack_scatter family may have, and their grids.
#include <algorithm>

#include "generator/families/unpack_scatter/unpack_scatter_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros.
Mutation::Matters unpacked(bool (*holds)(const UnpackScatterConfig&, const PackedCase&)) {
  return [holds](const Config& config, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 300 && holds(UnpackScatterConfig(config), each);
    });
  };
}
bool any_weight(const UnpackScatterConfig&, const PackedCase&) { return true; }
bool several_groups(const UnpackScatterConfig&, const PackedCase& each) {
  return each.packed.facts.at("column_tiles") > UnpackScatterConfig::kWarps && each.small_grid;
}
bool several_row_blocks(const UnpackScatterConfig&, const PackedCase& each) {
  return each.packed.facts.at("row_blocks") > 1;
}
bool several_tiles_of_a_warp(const UnpackScatterConfig&, const PackedCase& each) {
  return each.packed.facts.at("row_blocks") > 1 && each.small_grid;
}
bool rows_beyond(const UnpackScatterConfig&, const PackedCase& each) {
  return each.problem.spec.weight_rows() % 64 != 0;
}
bool several_parts(const UnpackScatterConfig&, const PackedCase& each) { return each.problem.spec.weight_rows() > 32; }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"tiles are not zeroed", "scatter::zero_tile(tile);", "", unpacked(any_weight)},
      {"a tile is copied out before all lanes have stored",
       "entries.put(weight, number, base);\n        warp_barrier();", "entries.put(weight, number, base);",
       unpacked(any_weight)},
      {"a tile is zeroed before all lanes have read", "warp_barrier();  // every lane has read the tile", "",
       unpacked(several_tiles_of_a_warp)},
      {"chunks are not where they were put", "(chunk ^ (row % 8)) * 16", "chunk * 16", unpacked(any_weight)},
      {"all parts are the first", "shuffle_index(part, i * 4 / scatter::kPartRows)", "shuffle_index(part, 0)",
       unpacked(several_parts)},
      {"rows are stored that the weight lacks", "if (row >= rows) return;", "", unpacked(rows_beyond)},
      {"further tiles are left out", "column += grid_size_y() * kWarps", "column += weight.column_tiles",
       unpacked(several_groups)},
      {"all row blocks have the first rows of the first", "weight.row_parts + block * kRowParts", "weight.row_parts",
       unpacked(several_row_blocks)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase&, const PackedWeight& packed, std::int64_t) {
  return {rows_of_grid(packed.facts.at("row_blocks"), 1),
          {.axis = 1, .work = packed.facts.at("column_tiles"), .per_block = UnpackScatterConfig::kWarps},
          parts_of_grid(1)};
}

const Registration kRegistered("unpack_scatter", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
