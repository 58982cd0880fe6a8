// Y = W X for a few tokens per pass: equal slots of nonzeros, one per lane, whatever the lengths of the rows.
//
// A block owns a part of the rows. Its warps share out the part's groups of 32 slots. Each warp loads kDepth tiles
// ahead, the first of them before x arrives; it multiplies, and leaves one float per slot and token. After a barrier, a
// few lanes per row add up the row's slots and run the epilog.
//
// With distances in 3, 4, 6 or 8 bits, padding is multiplied: 0 times an x of the same row. If a row's sum is not
// finite, it is added up again without padding.
//
// The grid has a block for each part (x). Its y runs over passes, and strides if it is smaller.
#pragma once

#include "formats/slots_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Stream, class Input, class Sums, class Output, int kTilesPerSlot, int kDepth, int kThreads>
struct SlotsKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTilesPerSlot, 1, 2, 4)
  SPARSMITH_TUNE(kDepth, 1, 2, 4)
  SPARSMITH_TUNE(kThreads, 128, 256, 512, 1024)
  static_assert(kDepth % kTilesPerSlot == 0, "the tiles in flight are whole slots");

  using Tile = typename Stream::Tile;
  static constexpr int kWarps = kThreads / slots::kLanes;
  static constexpr int kTokens = Sums::kTokens;
  static constexpr int kChains = kTokens == 1 ? 2 : 1;  // of products that wait for each other
  static constexpr int kGroupBytes = kTilesPerSlot * Stream::kTileBytes;

  static SPARSMITH_DEVICE void run(const u8* stream, const slots::Row* rows, Input& input, const Sums& sums,
                                   const Output& output, const slots::PartSizes& sizes, int rows_per_part, int n) {
    launch_dependents();
    const int warp = thread_index() / slots::kLanes;
    const int warp_tiles = (sizes.groups_of(block_index_x()) - warp + kWarps - 1) / kWarps * kTilesPerSlot;
    stream += sizes.first_group(block_index_x()) * kGroupBytes;
    rows += static_cast<i64>(block_index_x()) * rows_per_part;
    int token = block_index_y() * kTokens;
    while (true) {
      Tile tiles[kDepth];
      SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) {
        if (d < warp_tiles) tiles[d].load(tile_address(stream, warp, d), lane());
      }
      wait_for_previous();  // the first tiles are under way
      input.begin(token, n);
      const int first_row = thread_index() / Sums::kLanes;
      slots::Row row = {slots::kNoRow, 0};
      if (first_row < rows_per_part) row = load_cached(rows + first_row);
      input.wait();
      accumulate(stream, tiles, input, sums, warp, warp_tiles);
      sums.announce(row);
      block_barrier();
      sums.add_long_row();
      finish(stream, rows, row, input, sums, output, rows_per_part, token, n);
      token += grid_size_y() * kTokens;
      if (token >= n) break;
      block_barrier();  // the slots' sums and x have been read
    }
  }

 private:
  static SPARSMITH_DEVICE int lane() { return thread_index() % slots::kLanes; }

  // The address of tile t of a warp: the warps take the part's groups in turn.
  static SPARSMITH_DEVICE const u8* tile_address(const u8* stream, int warp, int t) {
    return stream + (warp + t / kTilesPerSlot * kWarps) * kGroupBytes + t % kTilesPerSlot * Stream::kTileBytes;
  }

  static SPARSMITH_DEVICE void accumulate(const u8* stream, Tile (&tiles)[kDepth], const Input& input, const Sums& sums,
                                          int warp, int warp_tiles) {
    int slot = thread_index();
    float chains[kTokens][kChains] = {};
    const u8* from = tile_address(stream, warp, 0);
    SPARSMITH_ROLLED for (int first = 0; first < warp_tiles; first += kDepth) {
      from = tile_address(from, 0, kDepth);
      SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) {
        if (first + d < warp_tiles) {
          tiles[d].multiply(input, chains, first + d + kDepth < warp_tiles, tile_address(from, 0, d), lane());
          if (d % kTilesPerSlot == kTilesPerSlot - 1) {
            put_and_clear(chains, slot, sums);
            slot += kThreads;
          }
        }
      }
    }
  }

  static SPARSMITH_DEVICE void put_and_clear(float (&chains)[kTokens][kChains], int slot, const Sums& sums) {
    float totals[kTokens];
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
      totals[t] = kChains == 1 ? chains[t][0] : chains[t][0] + chains[t][kChains - 1];
      SPARSMITH_UNROLL for (int c = 0; c < kChains; ++c) chains[t][c] = 0.0F;
    }
    sums.put(slot, totals);
  }

  // `row`: the descriptor of this thread's first row.
  static SPARSMITH_DEVICE void finish(const u8* stream, const slots::Row* rows, slots::Row row, const Input& input,
                                      const Sums& sums, const Output& output, int rows_per_part, int token, int n) {
    SPARSMITH_ROLLED for (int r = thread_index() / Sums::kLanes; r < rows_per_part;) {
      auto totals = sums.row_sums(row);
      if constexpr (Stream::Columns::kMultipliesPadding) {
        bool finite = true;
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) finite = finite && is_finite(totals.values[0][t]);
        if (warp_any(!finite)) {
          totals = sums.row_sums(
              row, [&](int slot, float(&sums_of_slot)[kTokens]) { add_slot(stream, slot, input, sums_of_slot); });
        }
      }
      if (thread_index() % Sums::kLanes == 0 && row.row != slots::kNoRow) {
        output.store(row.row, token, n, totals.values[0]);
      }
      r += kThreads / Sums::kLanes;
      if (r < rows_per_part) row = load_cached(rows + r);
    }
  }

  // Adds the sums of a slot of the part, in one lane and without the padding.
  static SPARSMITH_DEVICE void add_slot(const u8* stream, int slot, const Input& input, float (&sums)[kTokens]) {
    const u8* from = stream + slot / slots::kLanes * kGroupBytes;
    SPARSMITH_ROLLED for (int t = 0; t < kTilesPerSlot; ++t, from += Stream::kTileBytes) {
      Stream::add_nonzeros(from, slot % slots::kLanes, input, sums);
    }
  }
};

}  // namespace sparsmith
