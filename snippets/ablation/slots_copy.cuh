// The tiles of a slots weight, to the registers of the warps of SlotsKernel, as many ahead, and nothing else.
#pragma once

#include "snippets/ablation/kept_slots.cuh"
#include "snippets/contract.cuh"
#include "snippets/kernels/slots.cuh"

namespace sparsmith {

template <class Stream, class Input, class Sums, class Output, int kTilesPerSlot, int kDepth, int kThreads>
struct SlotsCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTilesPerSlot, 1, 2, 4)
  SPARSMITH_TUNE(kDepth, 1, 2, 4)
  SPARSMITH_TUNE(kThreads, 128, 256, 512, 1024)

  using Tile = typename Stream::Tile;
  static constexpr int kWarps = kThreads / slots::kLanes;
  static constexpr int kGroupBytes = kTilesPerSlot * Stream::kTileBytes;

  static SPARSMITH_DEVICE void run(const u8* stream, const slots::Row* /*rows*/, Input& /*input*/, const Sums& sums,
                                   const Output& /*output*/, const slots::PartSizes& sizes, int /*rows_per_part*/,
                                   int n) {
    launch_dependents();
    const int warp = thread_index() / slots::kLanes;
    const int warp_tiles = (sizes.groups_of(block_index_x()) - warp + kWarps - 1) / kWarps * kTilesPerSlot;
    stream += sizes.first_group(block_index_x()) * kGroupBytes;
    KeptWords kept;
    for (int token = block_index_y() * Sums::kTokens; token < n; token += grid_size_y() * Sums::kTokens) {
      Tile tiles[kDepth];
      SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) {
        if (d < warp_tiles) tiles[d].load(tile_address(stream, warp, d), lane());
      }
      wait_for_previous();  // the first tiles are under way
      copy(stream, tiles, warp, warp_tiles, kept);
    }
    wait_for_previous();
    kept.end(shared_offset(sums.shared));
  }

 private:
  static SPARSMITH_DEVICE int lane() { return thread_index() % slots::kLanes; }

  // Of tile t of a warp: the warps take the part's groups in turn.
  static SPARSMITH_DEVICE const u8* tile_address(const u8* stream, int warp, int t) {
    return stream + (warp + t / kTilesPerSlot * kWarps) * kGroupBytes + t % kTilesPerSlot * Stream::kTileBytes;
  }

  static SPARSMITH_DEVICE void copy(const u8* stream, Tile (&tiles)[kDepth], int warp, int warp_tiles,
                                    KeptWords& kept) {
    const u8* from = tile_address(stream, warp, 0);
    SPARSMITH_ROLLED for (int first = 0; first < warp_tiles; first += kDepth) {
      from = tile_address(from, 0, kDepth);
      SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) {
        if (first + d < warp_tiles) {
          slots::keep(tiles[d].values, kept);
          slots::keep(tiles[d].columns, kept);
          if (first + d + kDepth < warp_tiles) tiles[d].load(tile_address(from, 0, d), lane());
        }
      }
    }
  }
};

}  // namespace sparsmith
