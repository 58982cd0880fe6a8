// Y = W X for one token a pass: equal slots of nonzeros, one a lane, whatever the lengths of the rows.
//
// A block owns a part of the rows. Its warps share out the part's groups of 32 slots: each loads kDepth tiles ahead,
// the first of them before x is there, multiplies, and leaves one float a slot. After a barrier a few lanes a row add
// up its slots and run the epilog.
//
// The grid's x runs over parts, its y over tokens; it strides where it is smaller than needed.
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
  static constexpr int kGroupBytes = kTilesPerSlot * Stream::kTileBytes;

  // parts: of the weight; groups, rows_per_part: of a part.
  static SPARSMITH_DEVICE void run(const u8* stream, const slots::Row* rows, Input& input, const Sums& sums,
                                   const Output& output, int parts, int groups, int rows_per_part, int n) {
    launch_dependents();
    const int warp = thread_index() / slots::kLanes;
    const int warp_tiles = (groups - warp + kWarps - 1) / kWarps * kTilesPerSlot;
    const int first_row = thread_index() / Sums::kLanes;
    SPARSMITH_ROLLED for (int token = block_index_y(); token < n; token += grid_size_y()) {
      SPARSMITH_ROLLED for (int part = block_index_x(); part < parts; part += grid_size_x()) {
        const u8* from = stream + (static_cast<i64>(part) * groups + warp) * kGroupBytes;
        Tile tiles[kDepth];
        SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) {
          if (d < warp_tiles) tiles[d].load(tile_address(from, d), lane());
        }
        if (part == block_index_x()) {
          wait_for_previous();
          input.begin(token);
        }
        const slots::Row* part_rows = rows + static_cast<i64>(part) * rows_per_part;
        slots::Row row = {slots::kNoRow, 0};
        if (first_row < rows_per_part) row = load_cached(part_rows + first_row);
        if (part == block_index_x()) input.wait();
        accumulate(from, tiles, input, sums, warp, warp_tiles);
        block_barrier();
        finish(part_rows, row, sums, output, rows_per_part, token, n);
        block_barrier();  // the slots' sums and x have been read
      }
    }
  }

 private:
  static SPARSMITH_DEVICE int lane() { return thread_index() % slots::kLanes; }

  // Of tile t of a warp: the warps take the groups in turn.
  static SPARSMITH_DEVICE const u8* tile_address(const u8* from, int t) {
    return from + t / kTilesPerSlot * (kWarps * kGroupBytes) + t % kTilesPerSlot * Stream::kTileBytes;
  }

  static SPARSMITH_DEVICE void accumulate(const u8* from, Tile (&tiles)[kDepth], const Input& input, const Sums& sums,
                                          int warp, int warp_tiles) {
    int slot = warp * slots::kLanes + lane();
    float chains[2] = {0.0F, 0.0F};
    SPARSMITH_ROLLED for (int first = 0; first < warp_tiles; first += kDepth) {
      from = tile_address(from, kDepth);
      SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) {
        if (first + d < warp_tiles) {
          tiles[d].multiply(input, chains);
          if (first + d + kDepth < warp_tiles) tiles[d].load(tile_address(from, d), lane());
          if (d % kTilesPerSlot == kTilesPerSlot - 1) {
            sums.put(slot, chains[0] + chains[1]);
            chains[0] = chains[1] = 0.0F;
            slot += kThreads;
          }
        }
      }
    }
  }

  // `row`: the descriptor of this thread's first row.
  static SPARSMITH_DEVICE void finish(const slots::Row* rows, slots::Row row, const Sums& sums, const Output& output,
                                      int rows_per_part, int token, int n) {
    SPARSMITH_ROLLED for (int r = thread_index() / Sums::kLanes; r < rows_per_part;) {
      const auto total = sums.row_sum(row);
      if (thread_index() % Sums::kLanes == 0 && row.row != slots::kNoRow) {
        output.store(row.row, token, n, total.values[0]);
      }
      r += kThreads / Sums::kLanes;
      if (r < rows_per_part) row = load_cached(rows + r);
    }
  }
};

}  // namespace sparsmith
