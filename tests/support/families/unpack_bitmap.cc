// Mistakes that kernels of the unpack_bitmap family may have, and their grids.
#include <algorithm>

#include "generator/families/unpack_bitmap/unpack_bitmap_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros.
Mutation::Matters unpacked(bool (*holds)(const PackedCase&)) {
  return [holds](const Config&, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(),
                       [&](const PackedCase& each) { return each.matrix.nnz() > 200 && holds(each); });
  };
}
bool any_weight(const PackedCase&) { return true; }
bool vectors(const PackedCase& each) { return each.problem.spec.weight_cols() % 8 == 0; }
bool elements(const PackedCase& each) { return each.problem.spec.weight_cols() % 8 != 0; }
bool several_groups(const PackedCase& each) {
  return each.packed.facts.at("strips") > UnpackBitmapConfig::kWarps && each.small_grid;
}
bool several_row_tiles(const PackedCase& each) { return each.packed.facts.at("row_tiles") > 1; }
bool several_row_tiles_of_a_warp(const PackedCase& each) { return several_row_tiles(each) && each.small_grid; }
bool rows_beyond(const PackedCase& each) { return each.problem.spec.weight_rows() % 16 != 0; }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"lanes do not exchange their halves", "shuffle_xor_word(odd ? rows[i][w] : rows[i][4 + w], 1)",
       "(odd ? rows[i][w] : rows[i][4 + w])", unpacked(any_weight)},
      {"the second rows are the first", "rows[i % 2][2 * kFragment", "rows[i % 1][2 * kFragment", unpacked(any_weight)},
      {"values go to the wrong half of a word", "v[2 * i + 1], 0x5410", "v[2 * i + 1], 0x1054", unpacked(any_weight)},
      {"rows are stored that the weight lacks", "if (row >= rows) return;", "", unpacked(rows_beyond)},
      {"columns are stored that the weight lacks", "if (column + i < cols) to[i]", "to[i]", unpacked(elements)},
      {"vectors are taken for aligned", "if (cols % 8 == 0)", "if (true)", unpacked(elements)},
      {"a vector is not stored", "if (column < cols) store_whole", "if (column + 8 < cols) store_whole",
       unpacked(vectors)},
      {"further strips are left out", "strip += grid_size_y() * kWarps", "strip += row_strips",
       unpacked(several_groups)},
      {"all row tiles have the first rows of the first", "row_parts + row_tile * kTiles + r", "row_parts + r",
       unpacked(several_row_tiles)},
      {"the ring is filled again before all lanes have read", "    warp_barrier();\n    copy_next<false>(slot);",
       "    copy_next<false>(slot);", unpacked(several_row_tiles_of_a_warp)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase&, const PackedWeight& packed, std::int64_t) {
  return {rows_of_grid(packed.facts.at("row_tiles"), 1),
          {.axis = 1, .work = packed.facts.at("strips"), .per_block = UnpackBitmapConfig::kWarps},
          parts_of_grid(1)};
}

const Registration kRegistered("unpack_bitmap", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
