// Mistakes that kernels of the specialized family may have, and their grids.
#include <algorithm>

#include "generator/families/specialized/specialized_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros.
Mutation::Matters specialized(bool (*holds)(const SpecializedConfig&, const PackedCase&)) {
  return [holds](const Config&, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 300 && holds(SpecializedConfig(each.config), each);
    });
  };
}

// Of a block's row tile.
std::int64_t column_tiles(const SpecializedConfig& config, const PackedCase& each) {
  return each.matrix.cols / 64 / config.column_parts;
}
bool any_tiles(const SpecializedConfig&, const PackedCase&) { return true; }
// Another X shows in the sums: not those of a single row, which relu may hide.
bool shows(const PackedCase& each) {
  return each.inputs.kind == InputKind::kVaried && each.problem.tokens > 3 && each.matrix.nnz() > each.matrix.cols;
}
// The same of wide weights, which few tokens are drawn for.
bool shows_in_rows(const PackedCase& each) {
  return each.inputs.kind == InputKind::kVaried && each.matrix.rows > 16 && each.matrix.nnz() > each.matrix.cols;
}
bool fills_places_again(const SpecializedConfig& config, const PackedCase& each) {
  return column_tiles(config, each) > 2 * config.producers * config.tile_buffers / config.row_tiles;
}
bool fills_stages_again(const SpecializedConfig& config, const PackedCase& each) {
  return column_tiles(config, each) > 2 * config.stages * config.stage_columns / 64;
}
bool several_row_tiles(const SpecializedConfig& config, const PackedCase& each) {
  return config.row_tiles > 1 && each.matrix.rows > 64 && shows(each);
}
bool several_turns(const SpecializedConfig& config, const PackedCase& each) {
  return config.warpgroups > config.row_tiles && each.matrix.cols > 2 * config.stage_columns * config.column_parts &&
         shows_in_rows(each);
}
bool several_panels(const SpecializedConfig& config, const PackedCase& each) {
  return each.matrix.rows > config.rows();
}
bool aligned_input(const SpecializedConfig& config, const PackedCase& each) {
  return each.problem.spec.layout == Layout::kTokenMajor && each.inputs.padding % 8 == 0 && each.matrix.cols % 8 == 0 &&
         each.matrix.cols >= config.stage_columns;
}
bool meets_infinity_in_some(const SpecializedConfig&, const PackedCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"tiles are multiplied before they are full", "await(barriers.full(place + c * kRowTiles), parity);", "",
       specialized(any_tiles)},
      {"X is multiplied before it is there", "await(barriers.stage_full(stage), stage_parity);", "",
       specialized(any_tiles)},
      {"tensor cores need not see what they multiply",
       "tensor_reads_follow();\n    warp_barrier();\n    if (lane() == 0) arrive",
       "warp_barrier();\n    if (lane() == 0) arrive", specialized(any_tiles)},
      {"a tile is handed over before all lanes have stored",
       "tensor_reads_follow();\n    warp_barrier();\n    if (lane() == 0) arrive",
       "tensor_reads_follow();\n    if (lane() == 0) arrive", specialized(any_tiles)},
      {"a tile is stored where another one is multiplied", "await(barriers.empty(place), parity ^ 1U);", "",
       specialized(fills_places_again)},
      {"X is brought where other X is multiplied",
       "await(barriers.stage_empty(stage), static_cast<u32>(s / Ring::kStages % 2) ^ 1U);", "",
       specialized(fills_stages_again)},
      {"places are given back before products end", "warpgroup_multiply_wait<1>();", "",
       specialized(fills_places_again)},
      {"the place in use is given back", "arrive(barriers.empty(last_place))",
       "arrive(barriers.empty(place + c * kRowTiles))", specialized(fills_places_again)},
      {"places are not given back", "arrive(barriers.empty(last_place))", ";", specialized(fills_places_again)},
      {"stages are not given back", "arrive(barriers.stage_empty(last_stage))", ";", specialized(fills_stages_again)},
      {"places have one phase", "place -= kPlaces;\n        parity ^= 1U;", "place -= kPlaces;",
       specialized(fills_places_again)},
      {"stages have one phase", "stage -= Ring::kStages;\n        stage_parity ^= 1U;", "stage -= Ring::kStages;",
       specialized(fills_stages_again)},
      {"products are not awaited", "warpgroup_multiply_wait();  // nobody waits for the last place", "",
       specialized(any_tiles)},
      {"products are not committed", "warpgroup_multiply_commit();\n        warpgroup", "warpgroup",
       specialized(any_tiles)},
      {"products are not begun", "warpgroup_multiply_begin();\n        sums", "sums", specialized(any_tiles)},
      {"a tile is not cleared", "    zero_tile(tile);\n  } else", "  } else",
       specialized([](const SpecializedConfig& config, const PackedCase& each) {
         return config.whole_tiles != 0 && fills_places_again(config, each) && shows_in_rows(each);
       })},
      {"a tile is not cleared", "list.clear(weight, base);", "",
       specialized([](const SpecializedConfig& config, const PackedCase& each) {
         return config.whole_tiles == 0 && fills_places_again(config, each) && shows_in_rows(each);
       })},
      {"zeros meet the next tile's entries", "SPARSMITH_UNROLL for (int i = 0; i < kTileBytes / 512; ++i) {",
       "SPARSMITH_UNROLL for (int i = 0; i < kTileBytes / 512 - 1; ++i) {", specialized(any_tiles)},
      {"X is handed over before it is there", "async_commit();\n    async_wait<0>();", "async_commit();",
       specialized(aligned_input)},
      {"chunks of X are not where they are looked for", "lane() / 8 ^ 4) * 16", "lane() / 8) * 16",
       specialized([](const SpecializedConfig& config, const PackedCase& each) {
         return aligned_input(config, each) && each.problem.tokens > 4 && shows(each);
       })},
      {"X is read before it may be", "wait_for_previous();\n    const int stages", "const int stages",
       specialized([](const SpecializedConfig&, const PackedCase& each) { return each.programmatic; })},
      {"row tiles take one place of sums", "put_partials(partials + row * 64,", "put_partials(partials,",
       specialized(several_row_tiles)},
      {"warpgroups take one place of sums", "+ turn * (Sums::kPartialBytes / 4)", "", specialized(several_turns)},
      {"no barrier before partial sums are added", "block_barrier();\n        Totals{", "Totals{",
       specialized(any_tiles)},
      {"no barrier before tiles take the place of sums", "block_barrier();  // and all have read",
       "// and all have read", specialized(several_panels)},
      {"a stage waits for a row tile that is not there", "kGroupWarps * row_tiles);", "kGroupWarps * kRowTiles);",
       specialized([](const SpecializedConfig& config, const PackedCase& each) {
         return config.row_tiles > 1 && (each.matrix.rows - 1) / 64 % 2 == 0 && fills_stages_again(config, each);
       })},
      {"Inf goes unseen", "if (!all_finite(shared)) accumulate", "if (false) accumulate",
       specialized(meets_infinity_in_some)},
      {"Inf in X is dropped where W is stored", "sum = multiply_add(to_float(w), share.input.element(",
       "if (is_finite(share.input.element(share.first_token + i / 64, column + e)))\n"
       "          sum = multiply_add(to_float(w), share.input.element(",
       specialized([](const SpecializedConfig&, const PackedCase& each) { return stores_infinity(each); })},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  return {rows_of_grid(each.problem.spec.rows, SpecializedConfig(each.config).rows()),
          tokens_of_grid(n, each.config.at("token_tile")), parts_of_grid(each.config.at("column_parts"))};
}

const Registration kRegistered("specialized", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
