// Makes a scatter weight dense again, in global memory, for a library that multiplies by it.
//
// A warp stores the nonzeros of a tile of 64 rows in its zeroed tile in shared memory, as for tensor cores, copies the
// tile out, four rows of 128 bytes at a time, and ends: one tile each balances the work better than several. Packings
// of natural columns.
//
// The grid's x runs over row blocks, its y over kWarps tiles; each strides if it is smaller.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/dense_rows.cuh"
#include "snippets/prolog/scatter_entries.cuh"

namespace sparsmith {

template <class Entries, int kWarps>
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
    for (int column = block_index_y() * kWarps + warp; column < weight.column_tiles; column += grid_size_y() * kWarps) {
      for (int block = block_index_x(); block < weight.row_blocks; block += grid_size_x()) {
        const int number = block * weight.column_tiles + column;
        Entries entries;
        Cursor cursor(weight, number, 1, entries.list);
        cursor.begin(entries.list);
        // Lane l holds the first row of part l % 4.
        const u32 part = load_cached(weight.row_parts + block * kRowParts + lane() % kRowParts);
        scatter::zero_tile(tile);
        wait_for_previous();  // the entries are under way
        entries.put(weight, number, base);
        warp_barrier();
        copy_out(tile, part, column * kTileColumns, dense);
        warp_barrier();  // every lane has read the tile
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
