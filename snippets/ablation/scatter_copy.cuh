// The entries of a scatter weight, to the registers of the warps of ScatterKernel, each tile while the one before is in
// use, and nothing else.
#pragma once

#include "snippets/ablation/unstored_entries.cuh"
#include "snippets/contract.cuh"
#include "snippets/kernels/scatter.cuh"

namespace sparsmith {

template <class Entries, class Input, class Output, int kTileRows, int kTokens, int kInputColumns, int kWarps,
          int kRowTiles, int kParts, int kAhead>
struct ScatterCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kWarps, 4, 8, 12, 16)
  SPARSMITH_TUNE(kRowTiles, 1, 2)
  SPARSMITH_TUNE(kAhead, 0, 1)

  // As much as the whole kernel, so that as many blocks are resident.
  static constexpr int kSharedBytes = ScatterKernel<Entries, Input, Output, kTileRows, kTokens, kInputColumns, kWarps,
                                                    kRowTiles, kParts, kAhead>::kSharedBytes;

  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const Input& /*input*/, const Output& /*output*/,
                                   int n, u8* shared) {
    launch_dependents();
    const int warp = static_cast<int>(shuffle_index(static_cast<u32>(thread_index() / scatter::kLanes), 0));
    const int share = (kParts > 1 ? cluster_rank() : 0) * kWarps + warp;
    const int begin = share * weight.column_tiles / (kParts * kWarps);
    const int end = (share + 1) * weight.column_tiles / (kParts * kWarps);
    const int panels = (weight.row_blocks + kRowTiles - 1) / kRowTiles;
    KeptWords kept;
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int panel = block_index_x() / kParts; panel < panels; panel += grid_size_x() / kParts) {
        if (begin < end) copy(weight, panel * kRowTiles, begin, end, kept);
      }
    }
    wait_for_previous();  // where there was nothing to do, too
    kept.end(shared_offset(shared + warp * scatter::kTileBytes) + scatter::lane_of_warp() * 2);
  }

 private:
  using List = UnstoredEntries<Entries>;
  using Cursor = scatter::TileCursor<typename Entries::Words, 1, kRowTiles>;

  // Tiles [begin, end) of each of the row blocks. In the place of one that does not exist stands the one before it.
  static SPARSMITH_DEVICE void copy(const scatter::Weight& weight, int first_block, int begin, int end,
                                    KeptWords& kept) {
    const int stride = kRowTiles == 1 || first_block + 1 == weight.row_blocks ? 0 : weight.column_tiles;
    const int first = first_block * weight.column_tiles;
    List entries;
    Cursor cursor(weight, first + begin, end - begin, entries.list, stride);
    wait_for_previous();  // the first entries are under way
    cursor.begin(entries.list);
    SPARSMITH_ROLLED for (int t = begin; t < end; ++t) {
      entries.keep(weight, first + t, kept);
      if constexpr (kRowTiles == 2) {
        cursor.template load<1>(entries.list, entries.list.words[0]);
        entries.keep(weight, first + stride + t, kept);
      }
      if (t + 1 < end) cursor.template load<0>(entries.list, entries.list.words[0]);
    }
  }
};

}  // namespace sparsmith
