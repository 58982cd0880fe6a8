// Makes a scatter weight dense again, in global memory, for a library that multiplies by it.
//
// A warp takes kTiles neighbouring tiles of 64 rows: it stores the nonzeros of a tile in its zeroed tile in shared
// memory, as for tensor cores, requests the next tile's nonzeros, and copies the tile out, four rows of 128 bytes at a
// time. Packings of natural columns.
//
// The grid's x runs over row blocks, its y over groups of kWarps x kTiles tiles; each strides if it is smaller.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/dense_rows.cuh"
#include "snippets/prolog/scatter_entries.cuh"

namespace sparsmith {

template <class Entries, int kWarps, int kTiles>
struct UnpackScatterKernel {
  SPARSMITH_ROLE(kernel)

  static constexpr int kTileRows = 64;
  static constexpr int kTileColumns = scatter::kTileElements / kTileRows;
  static constexpr int kRowParts = kTileRows / scatter::kPartRows;
  static constexpr int kSharedBytes = kWarps * scatter::kTileBytes;
  static_assert(kTileColumns * 2 == scatter::kLineBytes, "a row is a line of the tile");

  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const DenseRows& dense, u8* shared) {
    launch_dependents();
    const int warp = warp_index();
    u8* tile = shared + warp * scatter::kTileBytes;
    const u32 base = Entries::base(shared_offset(tile));
    constexpr int kGroup = kWarps * kTiles;
    for (int group = block_index_y() * kGroup; group < weight.column_tiles; group += grid_size_y() * kGroup) {
      const int begin = group + warp * kTiles;
      const int end = begin + kTiles < weight.column_tiles ? begin + kTiles : weight.column_tiles;
      for (int block = block_index_x(); block < weight.row_blocks; block += grid_size_x()) {
        if (begin >= end) continue;
        const int first = block * weight.column_tiles + begin;
        Entries entries;
        Cursor cursor(weight, first, end - begin, entries.list);
        cursor.begin(entries.list);
        // Lane l holds the first row of part l % 4.
        const u32 part = load_cached(weight.row_parts + block * kRowParts + lane() % kRowParts);
        wait_for_previous();  // the first entries are under way
        SPARSMITH_ROLLED for (int t = begin; t < end; ++t) {
          scatter::zero_tile(tile);
          entries.put(weight, first + (t - begin), base);
          warp_barrier();
          if (t + 1 < end) cursor.load(entries.list, entries.list.words[0]);
          copy_out(tile, part, t * kTileColumns, dense);
          warp_barrier();  // every lane has read the tile
        }
      }
    }
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  using Cursor = scatter::TileCursor<typename Entries::Words>;

  static SPARSMITH_DEVICE int lane() { return scatter::lane_of_warp(); }

  static SPARSMITH_DEVICE void copy_out(const u8* tile, u32 part, int column, const DenseRows& dense) {
    const int chunk = lane() % 8;
    SPARSMITH_UNROLL for (int i = 0; i < kTileRows / 4; ++i) {
      const int row = i * 4 + lane() / 8;
      const auto& from =
          *reinterpret_cast<const Vector<u32, 4>*>(tile + row * scatter::kLineBytes + (chunk ^ (row % 8)) * 16);
      const int first_row = static_cast<int>(shuffle_index(part, i * 4 / scatter::kPartRows));
      dense.store(first_row + row % scatter::kPartRows, column + chunk * 8, from);
    }
  }
};

}  // namespace sparsmith
