// The entries of a scatter weight, to the registers of the warps of WgmmaKernel, each tile while the one before is in
// use and the one behind it on its way to L2, and nothing else.
#pragma once

#include "snippets/ablation/unstored_entries.cuh"
#include "snippets/contract.cuh"
#include "snippets/kernels/wgmma.cuh"

namespace sparsmith {

template <class Entries, class Input, class Output, int kRowTiles, int kWarpgroups, bool kWholeTiles, int kTakenTiles,
          int kBuffers, int kBlocks>
struct WgmmaCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kRowTiles, 1, 2, 4)
  SPARSMITH_TUNE(kWarpgroups, 1, 2, 3, 4)

  using Whole =
      WgmmaKernel<Entries, Input, Output, kRowTiles, kWarpgroups, kWholeTiles, kTakenTiles, kBuffers, kBlocks>;
  static constexpr int kColumnTiles = Whole::kColumnTiles;
  static constexpr int kGroupWarps = Whole::kGroupWarps;
  static constexpr int kSharedBytes = Whole::kSharedBytes;  // so that as many blocks are resident

  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const Input& /*input*/, const Output& /*output*/,
                                   int first_tile, int end_tile, int n, u8* shared) {
    launch_dependents();
    const int warp = warp_index();
    const int group = warp / kGroupWarps;
    const int tiles = end_tile > first_tile ? end_tile - first_tile : 0;
    const int steps = (tiles + kColumnTiles - 1) / kColumnTiles;
    const int group_steps = (group + 1) * steps / kWarpgroups - group * steps / kWarpgroups;
    const int begin = first_tile + group * steps / kWarpgroups * kColumnTiles + warp % kGroupWarps / kRowTiles;
    const int left = (end_tile - begin + kColumnTiles - 1) / kColumnTiles;
    const int count = left < group_steps ? left : group_steps;
    const int panels = (weight.row_blocks + kRowTiles - 1) / kRowTiles;
    KeptWords kept;
    for (int first_token = block_index_y() * Whole::kTokens; first_token < n;
         first_token += grid_size_y() * Whole::kTokens) {
      for (int panel = block_index_x(); panel < panels; panel += grid_size_x()) {
        const int block = panel * kRowTiles + warp % kRowTiles;
        if (block < weight.row_blocks && begin < end_tile)
          copy(weight, block * weight.column_tiles + begin, count, kept);
      }
    }
    wait_for_previous();  // where there was nothing to do, too
    kept.end(shared_offset(shared + warp * scatter::kTileBytes) + scatter::lane_of_warp() * 2);
  }

 private:
  using List = UnstoredEntries<Entries>;
  using Cursor = scatter::TileCursor<typename Entries::Words, kColumnTiles>;

  // From tile number `first` on every kColumnTiles-th.
  static SPARSMITH_DEVICE void copy(const scatter::Weight& weight, int first, int count, KeptWords& kept) {
    List entries;
    Cursor cursor(weight, first, count, entries.list);
    wait_for_previous();  // the first entries are under way
    cursor.begin(entries.list);
    if (Whole::kPrefetch && 1 < count) cursor.prefetch_next();
    SPARSMITH_ROLLED for (int t = 0; t < count; ++t) {
      entries.keep(weight, first + t * kColumnTiles, kept);
      if (t + 1 < count) cursor.load(entries.list, entries.list.words[0]);
      if (Whole::kPrefetch && t + 2 < count) cursor.prefetch_next();
    }
  }
};

}  // namespace sparsmith
