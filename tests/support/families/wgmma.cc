// Mistakes that kernels of the wgmma family may have, and their grids.
#include <algorithm>

#include "generator/families/wgmma/wgmma_family.h"
#include "tests/support/families/known_family.h"

namespace sparsmith::test {
namespace {

// Some weight of several hundred nonzeros.
Mutation::Matters wgmma(bool (*holds)(const WgmmaConfig&, const PackedCase&)) {
  return [holds](const Config&, const Cases& cases) {
    return std::any_of(cases.begin(), cases.end(), [&](const PackedCase& each) {
      return each.matrix.nnz() > 300 && holds(WgmmaConfig(each.config), each);
    });
  };
}

// What a warpgroup does in a step.
std::int64_t step_columns(const WgmmaConfig& config) { return std::int64_t{4 / config.row_tiles} * 64; }
// Of the warpgroup that has most.
bool several_steps(const WgmmaConfig& config, const PackedCase& each) {
  return each.matrix.cols > 2 * step_columns(config) * config.warpgroups * config.column_parts;
}
bool any_tiles(const WgmmaConfig&, const PackedCase&) { return true; }
bool one_buffer(const WgmmaConfig& config, const PackedCase&) { return config.tile_buffers == 1; }
bool two_buffers(const WgmmaConfig& config, const PackedCase&) { return config.tile_buffers == 2; }
bool one_buffer_again(const WgmmaConfig& config, const PackedCase& each) {
  return config.tile_buffers == 1 && several_steps(config, each);
}
bool two_buffers_again(const WgmmaConfig& config, const PackedCase& each) {
  return config.tile_buffers == 2 && several_steps(config, each);
}
bool several_warpgroups(const WgmmaConfig& config, const PackedCase& each) {
  return config.warpgroups > 1 && each.matrix.cols > step_columns(config) * config.warpgroups * config.column_parts;
}
bool cluster(const WgmmaConfig& config, const PackedCase& each) {
  return config.cluster() > 1 && each.matrix.cols > 64 * config.cluster();
}
bool cluster_of_four(const WgmmaConfig& config, const PackedCase& each) {
  return config.cluster() == 4 && cluster(config, each);
}
bool several_panels(const WgmmaConfig& config, const PackedCase& each) { return each.matrix.rows > config.rows(); }
bool several_row_tiles(const WgmmaConfig& config, const PackedCase& each) {
  return config.row_tiles > 1 && each.matrix.rows > 64;
}
bool aligned_input(const WgmmaConfig& config, const PackedCase& each) {
  return each.problem.spec.layout == Layout::kTokenMajor && each.inputs.padding % 8 == 0 && each.matrix.cols % 8 == 0 &&
         each.matrix.cols >= step_columns(config);
}
// Another X shows in the sums: not those of a single row, which relu may hide.
bool shows(const PackedCase& each) {
  return each.inputs.kind == InputKind::kVaried && each.problem.tokens > 3 && each.matrix.nnz() > each.matrix.cols;
}
bool clears_whole(const WgmmaConfig& config, const PackedCase& each) {
  return config.whole_tiles != 0 && several_steps(config, each) && shows(each);
}
bool clears_entries(const WgmmaConfig& config, const PackedCase& each) {
  return config.whole_tiles == 0 && several_steps(config, each) && shows(each);
}
bool meets_infinity_in_some(const WgmmaConfig&, const PackedCase& each) { return meets_infinity(each); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"tiles are multiplied before all of them are there",
       "tensor_reads_follow();\n    warpgroup_barrier(tiles.group);", "tensor_reads_follow();", wgmma(one_buffer)},
      {"tiles are multiplied before all of them are there", "warpgroup_barrier(tiles.group);  // the tiles are there",
       "// ", wgmma(two_buffers)},
      {"tensor cores need not see the tiles", "tensor_reads_follow();\n    warpgroup_barrier", "warpgroup_barrier",
       wgmma(one_buffer)},
      {"tensor cores need not see the first tiles", "tensor_reads_follow();\n    Entries", "Entries",
       wgmma(two_buffers)},
      {"tensor cores need not see the tiles", "tensor_reads_follow();\n      multiplied", "multiplied",
       wgmma(two_buffers_again)},
      {"a tile is made dense where another one is multiplied", "static_cast<u32>(step) % kBuffers * kStepBytes", "0",
       wgmma(two_buffers_again)},
      {"a step's X is the first one's", "x.take(t, 0, fragments);\n      warpgroup",
       "x.take(0, 0, fragments);\n      warpgroup", wgmma([](const WgmmaConfig& config, const PackedCase& each) {
         return shows(each) && two_buffers_again(config, each);
       })},
      {"the last tile is left for products of nonzeros", "scatter::zero_tile(tiles.tile(share.steps - 1));  // which",
       ";  // which", wgmma([](const WgmmaConfig& config, const PackedCase& each) {
         return shows(each) && meets_infinity(each) && two_buffers_again(config, each);
       })},
      {"tiles are cleared while others multiply",
       "warpgroup_barrier(tiles.group);  // no warp's multiplication reads the tiles any more", "",
       wgmma(one_buffer_again)},
      {"products are not awaited", "warpgroup_multiply_wait();\n    warpgroup_barrier", "warpgroup_barrier",
       wgmma(one_buffer)},
      {"products are not awaited", "x.asked();\n      warpgroup_multiply_wait();", "x.asked();", wgmma(two_buffers)},
      {"products are not committed", "warpgroup_multiply_commit();\n      if", "if", wgmma(any_tiles)},
      {"products are not begun", "warpgroup_multiply_begin();\n      SPARSMITH_UNROLL", "SPARSMITH_UNROLL",
       wgmma(any_tiles)},
      {"a tile is not cleared", "    zero_tile(tile);\n  } else", "  } else", wgmma(clears_whole)},
      {"a tile is not cleared", "list.clear(weight, base);", "", wgmma(clears_entries)},
      {"zeros meet the next tile's entries", "SPARSMITH_UNROLL for (int i = 0; i < kTileBytes / 512; ++i) {",
       "SPARSMITH_UNROLL for (int i = 0; i < kTileBytes / 512 - 1; ++i) {", wgmma(any_tiles)},
      {"X is taken before it is there", "async_wait<kStages - 1>();\n    warp_barrier();\n  }", "warp_barrier();\n  }",
       wgmma(aligned_input)},
      {"chunks of X are not where they were put", "slot % 2 * 4) * 16;", "slot % 2 * 4) * 16 % 64;", wgmma(any_tiles)},
      {"the second tokens are the first", "fragments[1][i][word], fragments[0][i][word + 1]",
       "fragments[0][i][word], fragments[0][i][word + 1]",
       wgmma([](const WgmmaConfig&, const PackedCase& each) { return each.problem.tokens > 8; })},
      {"a step's later columns are its first", "sums.multiply(fragments, 2 * c,", "sums.multiply(fragments, 0 * c,",
       wgmma([](const WgmmaConfig& config, const PackedCase& each) {
         return shows(each) && config.taken_tiles > 1 && each.matrix.cols > 200;
       })},
      {"a step's later X is its first", "x.take(t, first * kTileColumns,", "x.take(t, 0,",
       wgmma([](const WgmmaConfig& config, const PackedCase& each) {
         return shows(each) && config.row_tiles * config.taken_tiles < 4 && each.matrix.cols > 300;
       })},
      {"row tiles are the first one", "const int block = share.first_block + warp % kRowTiles;",
       "const int block = share.first_block;", wgmma(several_row_tiles)},
      {"no barrier before partial sums take the tiles' place", "block_barrier();  // nobody needs a tile any more", "",
       wgmma(several_warpgroups)},
      {"no barrier before partial sums are added", "block_barrier();\n        Totals{", "Totals{", wgmma(any_tiles)},
      {"no barrier before tiles take their place again",
       "block_barrier();  // the partial sums have been read: tiles may take their place", "",
       wgmma([](const WgmmaConfig& config, const PackedCase& each) {  // else a cluster's barrier stands between
         return config.cluster() == 1 && several_panels(config, each);
       })},
      {"the sums of the last warpgroup are dropped", "g < kWarpgroups; ++g", "g < kWarpgroups - 1; ++g",
       wgmma(several_warpgroups)},
      {"a quad of rows is another one", "quad_of(i) % kPartQuads * 4", "quad_of(i) % kPartQuads", wgmma(any_tiles)},
      {"sums of other blocks are not asked for", "if (b != rank) addend =", "if (false) addend =", wgmma(cluster)},
      {"blocks' sums are stored in one place", "(from - (from > owner ? 1 : 0)) *", "0 *", wgmma(cluster_of_four)},
      {"one block gets all sums of the others", "(rank + k) % kBlocks", "(rank + 1) % kBlocks", wgmma(cluster_of_four)},
      {"blocks store before all of them run", "cluster_wait();\n    SPARSMITH_UNROLL", "SPARSMITH_UNROLL",
       wgmma(cluster)},
      {"blocks do not await the others' sums", "cluster_wait();\n    add_blocks", "add_blocks", wgmma(cluster)},
      {"blocks do not say that they have stored", "cluster_arrive();\n    // Threads", "// Threads", wgmma(cluster)},
      {"a share's end is the block's", "rank * share + first, rank * share + end, sums);\n  }",
       "first, end, sums);\n  }", wgmma(cluster)},
      {"a token's sums are its neighbour's", "h * 8 * kLine + j * 8", "j * 8",
       wgmma([](const WgmmaConfig&, const PackedCase& each) { return each.problem.tokens > 8; })},
      {"Inf in X is dropped where W is stored", "values[j * 4 + e] = multiply_add(to_float(w), low,",
       "if (is_finite(low)) values[j * 4 + e] = multiply_add(to_float(w), low,",
       wgmma([](const WgmmaConfig&, const PackedCase& each) { return stores_infinity(each); })},
      {"Inf goes unseen", "if (!all_finite(", "if (false && !all_finite(", wgmma(meets_infinity_in_some)},
      {"Inf that other warps meet goes unseen", "finite[group * kGroupWarps + w];", "finite[warp];",
       wgmma(meets_infinity_in_some)},
  };
  return all;
}

std::vector<AxisWork> grid(const KernelCase& each, const PackedWeight&, std::int64_t n) {
  return {rows_of_grid(each.problem.spec.rows, WgmmaConfig(each.config).rows()), tokens_of_grid(n, 64),
          parts_of_grid(each.config.at("column_parts"))};
}

const Registration kRegistered("wgmma", {mutations, grid});

}  // namespace
}  // namespace sparsmith::test
