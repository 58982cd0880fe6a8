// Y = W X on tensor cores, W stored sparse: each warp scatters the nonzeros of a tile of W into its own zeroed tile in
// shared memory, multiplies the dense tile, and clears what it has stored.
//
// A block owns kTileRows rows, 16 neighbouring ones at a time. Its warps share out the tiles of those rows,
// neighbouring ones to each, and need no barrier among them until the end, when their sums meet in shared memory and
// are added in the order of warps: two runs give equal bits.
//
// Tensor cores multiply zeros as well, and 0 * Inf is NaN. Where sums are not finite, the warp does its tiles again,
// with the products of nonzeros alone: a zero weight contributes nothing, whatever X holds.
//
// The grid's x runs over row blocks, its y over token tiles; each strides when it is smaller than needed.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/scatter_entries.cuh"

namespace sparsmith {

// kInputColumns: columns of X whose fragments a warp holds.
template <class Entries, class Input, class Output, int kTileRows, int kTokens, int kInputColumns, int kWarps>
struct ScatterKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTileRows, 16, 32, 64)
  SPARSMITH_TUNE(kTokens, 8, 16, 32, 64)
  SPARSMITH_TUNE(kInputColumns, 32, 64, 128, 256)
  SPARSMITH_TUNE(kWarps, 4, 8, 12, 16)

  using Value = typename Input::Value;
  static constexpr int kTileColumns = scatter::kTileElements / kTileRows;
  static constexpr int kRowBytes = kTileColumns * 2;
  static constexpr int kRowParts = kTileRows / scatter::kPartRows;
  static constexpr int kTokenParts = kTokens / 8;
  static constexpr int kInputParts = kInputColumns / 32;
  static constexpr int kThreads = kWarps * scatter::kLanes;
  static constexpr int kPartialLine = kTileRows + 4;  // floats of a token, so that a warp's stores meet all banks
  static_assert(kInputColumns <= kTileColumns, "X is loaded for a tile at most");

  struct Sums {
    float values[kRowParts][kTokenParts][4];  // lane 4 g + t: rows g, g + 8 by tokens 2 t, 2 t + 1
    SPARSMITH_DEVICE void clear() {
      SPARSMITH_UNROLL for (int i = 0; i < kRowParts * kTokenParts * 4; ++i) {
        values[i / (kTokenParts * 4)][i / 4 % kTokenParts][i % 4] = 0.0F;
      }
    }
  };

  // Shared memory: tiles or partial sums, then the first rows of a row block's parts.
  static constexpr int kPartialBytes = kTokens * kPartialLine * 4;  // of a warp
  static constexpr int kRowPartsAt =
      kWarps * (kPartialBytes > scatter::kTileBytes ? kPartialBytes : scatter::kTileBytes);

  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const Input& input, const Output& output, int n,
                                   u8* shared) {
    launch_dependents();
    // The same in all lanes, and known to be: what is decided by it needs no reconvergence.
    const int warp = static_cast<int>(shuffle_index(static_cast<u32>(thread_index() / scatter::kLanes), 0));
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int block = block_index_x(); block < weight.row_blocks; block += grid_size_x()) {
        Sums sums;
        const Tiles tiles{weight,
                          input,
                          block,
                          first_token,
                          warp * weight.column_tiles / kWarps,
                          (warp + 1) * weight.column_tiles / kWarps};
        u32* first_rows = reinterpret_cast<u32*>(shared + kRowPartsAt);
        if (thread_index() == 0) async_copy<kRowParts * 4>(first_rows, weight.row_parts + block * kRowParts);
        accumulate(tiles, shared + warp * scatter::kTileBytes, sums);
        block_barrier();  // nobody needs a tile any more
        put_partials(sums, warp, reinterpret_cast<float*>(shared));
        if (thread_index() == 0) {
          async_commit();
          async_wait<0>();
        }
        block_barrier();
        finish(reinterpret_cast<const float*>(shared), first_rows, output, weight.rows, first_token, n);
        block_barrier();  // the partial sums have been read: tiles may take their place
      }
    }
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  using Window = typename Input::template Window<kTokens, kInputColumns>;
  using Cursor = scatter::TileCursor<typename Entries::Words>;

  static SPARSMITH_DEVICE int lane() { return scatter::lane_of_warp(); }

  // What a warp multiplies: tiles [begin, end) of a row block.
  struct Tiles {
    const scatter::Weight& weight;
    const Input& input;
    int block;
    int first_token;
    int begin;
    int end;

    SPARSMITH_DEVICE int number(int tile) const { return block * weight.column_tiles + tile; }  // of all tiles
  };

  static SPARSMITH_DEVICE void accumulate(const Tiles& tiles, u8* tile, Sums& sums) {
    sums.clear();
    if (tiles.begin == tiles.end) {
      wait_for_previous();
      return;
    }
    Entries even;
    Entries odd;
    Cursor cursor(tiles.weight, tiles.number(tiles.begin), tiles.end - tiles.begin, even.list);
    Window x(tiles.input, tiles.first_token, tiles.begin * kTileColumns);
    SPARSMITH_UNROLL for (int i = 0; i < scatter::kTileBytes / 512; ++i) {
      *reinterpret_cast<Vector<u32, 4>*>(tile + i * 512 + lane() * 16) = {};
    }
    wait_for_previous();  // the first entries are under way
    x.load();
    cursor.begin(even.list);
    warp_barrier();
    const u32 tile_at = shared_offset(tile);
    for (int t = tiles.begin; t < tiles.end; t += 2) {
      step(tiles, t, tile_at, cursor, even, odd, x, sums);
      if (t + 1 < tiles.end) step(tiles, t + 1, tile_at, cursor, odd, even, x, sums);
    }
    if (!finite(sums)) accumulate_nonzeros(tiles, tile, sums);
  }

  // Multiplies a tile, whose entries `list` holds, while those of the next one come.
  static SPARSMITH_DEVICE void step(const Tiles& tiles, int t, u32 tile_at, Cursor& cursor, const Entries& list,
                                    Entries& next, Window& x, Sums& sums) {
    const bool last = t + 1 == tiles.end;
    if (list.empty()) {
      if (!last) cursor.load(next.list, 0);
      SPARSMITH_UNROLL for (int i = 1; i < kTileColumns / kInputColumns; ++i) x.skip();
      if (!last) x.load();
      return;
    }
    const u32 base = Entries::base(tile_at);
    list.put(tiles.weight, tiles.number(t), base);
    warp_barrier();
    // Now, since values have been stored and registers are free, and so that it is there at the next tile.
    if (!last) cursor.load(next.list, list.list.words[0]);
    SPARSMITH_ROLLED for (int first = 0; first < kTileColumns; first += kInputColumns) {
      SPARSMITH_UNROLL for (int s = 0; s < kInputColumns / 16; ++s) { multiply(tile_at, first / 16 + s, x, s, sums); }
      if (!last || first + kInputColumns < kTileColumns) x.load();
    }
    warp_barrier();
    list.clear(tiles.weight, tiles.number(t), base);
    warp_barrier();
  }

  // Columns 16 step and on of the tile, as they lie there, by those that x holds as its s-th 16.
  static SPARSMITH_DEVICE void multiply(u32 tile_at, int step, const Window& x, int s, Sums& sums) {
    const int row = lane() % 16;
    const u32 chunk = static_cast<u32>(row * kRowBytes + ((lane() / 16) ^ (row % 8)) * 16) ^ (step * 32U);
    u32 w[kRowParts][4];
    SPARSMITH_UNROLL for (int r = 0; r < kRowParts; ++r) load_matrices(tile_at + chunk + r * 16 * kRowBytes, w[r]);
    SPARSMITH_UNROLL for (int r = 0; r < kRowParts; ++r) {
      SPARSMITH_UNROLL for (int i = 0; i < kTokenParts; ++i) {
        const typename Input::Fragment& fragment = x.fragments[i][s / 2];
        TensorMultiply<Value>::add(sums.values[r][i], w[r], fragment[s % 2 * 2], fragment[s % 2 * 2 + 1]);
      }
    }
  }

  // The same sums, without products of zeros.
  static SPARSMITH_DEVICE void accumulate_nonzeros(const Tiles& tiles, u8* tile, Sums& sums) {
    const u32 base = Entries::base(shared_offset(tile));
    sums.clear();
    SPARSMITH_ROLLED for (int t = tiles.begin; t < tiles.end; ++t) {
      Entries list;
      const u32* offset = tiles.weight.more_offsets + tiles.number(t);
      list.list.turn_to(load_cached(offset), load_cached(offset + 1));
      list.put_unloaded(tiles.weight, tiles.number(t), base);
      warp_barrier();
      multiply_nonzeros(tiles.input, tiles.first_token, t * kTileColumns, tile, sums);
      warp_barrier();
      list.clear_unloaded(tiles.weight, tiles.number(t), base);
      warp_barrier();
    }
  }

  // Whether all sums of the warp are.
  static SPARSMITH_DEVICE bool finite(const Sums& sums) {
    float check = 0.0F;
    SPARSMITH_UNROLL for (int i = 0; i < kRowParts * kTokenParts * 4; ++i) {
      check = multiply_add(sums.values[i / (kTokenParts * 4)][i / 4 % kTokenParts][i % 4], 0.0F, check);
    }
    SPARSMITH_UNROLL for (int distance = 16; distance > 0; distance /= 2) check += shuffle_xor(check, distance);
    return check == 0.0F;
  }

  // The products of a dense tile's nonzeros, each lane those of its own sums.
  static SPARSMITH_DEVICE void multiply_nonzeros(const Input& input, int first_token, int first_column, const u8* tile,
                                                 Sums& sums) {
    const int group = lane() / 4;
    const int pair = lane() % 4 * 2;
    SPARSMITH_ROLLED for (int i = 0; i < kTileColumns; ++i) {
      const int chunk = i / 8;
      const int column = first_column + chunk / 4 * 32 + i % 8 / 2 * 8 + chunk / 2 % 2 * 4 + chunk % 2 * 2 + i % 2;
      const u32 offset = group * kRowBytes + (chunk ^ group) * 16 + i % 8 * 2;
      // Token by token in a loop: what is seldom needed shall cost the rest no registers.
      SPARSMITH_ROLLED for (int t = 0; t < kTokenParts * 2; ++t) {
        const float x = input.element(first_token + t / 2 * 8 + pair + t % 2, column);
        SPARSMITH_UNROLL for (int r = 0; r < kRowParts * 2; ++r) {
          const Value w = *reinterpret_cast<const Value*>(tile + offset + r * 8 * kRowBytes);
          if ((w.bits & 0x7FFFU) == 0) continue;
          SPARSMITH_UNROLL for (int s = 0; s < kTokenParts * 2; ++s) {
            float& sum = sums.values[r / 2][s / 2][r % 2 * 2 + s % 2];
            if (s == t) sum = multiply_add(to_float(w), x, sum);
          }
        }
      }
    }
  }

  // partials [warp][token][kPartialLine]
  static SPARSMITH_DEVICE void put_partials(const Sums& sums, int warp, float* partials) {
    const int group = lane() / 4;
    const int pair = lane() % 4 * 2;
    float* of_warp = partials + warp * kTokens * kPartialLine;
    SPARSMITH_UNROLL for (int r = 0; r < kRowParts; ++r) {
      SPARSMITH_UNROLL for (int i = 0; i < kTokenParts; ++i) {
        SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
          of_warp[(i * 8 + pair + e % 2) * kPartialLine + r * 16 + group + e / 2 * 8] = sums.values[r][i][e];
        }
      }
    }
  }

  // Neighbouring threads take outputs that lie side by side.
  static SPARSMITH_DEVICE void finish(const float* partials, const u32* first_rows, const Output& output, int rows,
                                      int first_token, int n) {
    for (int i = thread_index(); i < kTileRows * kTokens; i += kThreads) {
      const int row = Input::kTokenMajor ? i % kTileRows : i / kTokens;
      const int token = Input::kTokenMajor ? i / kTileRows : i % kTokens;
      const u32 row_of_y = first_rows[row / scatter::kPartRows] + row % scatter::kPartRows;
      if (row_of_y < static_cast<u32>(rows) && first_token + token < n) {
        float total[1] = {0.0F};
        SPARSMITH_UNROLL for (int w = 0; w < kWarps; ++w) {
          total[0] += partials[(w * kTokens + token) * kPartialLine + row];
        }
        output.store(row_of_y, first_token + token, n, total);
      }
    }
  }
};

}  // namespace sparsmith
