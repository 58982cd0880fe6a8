// Y = W X on tensor cores, with W stored sparse: each warp scatters the nonzeros of a tile of W into its own zeroed
// tile in shared memory, multiplies the dense tile, and clears the elements that it has stored.
//
// A block owns kRowTiles row blocks of the format. Each has kTileRows rows, in parts of 16 neighbouring rows. A warp
// processes a tile of each row block, one after the other, with the same X. The block's warps share out the tiles of
// its rows, neighbouring tiles to each warp. They need no barrier until the end. Then their sums meet in shared memory
// and are added in the order of warps: two runs give equal bits.
//
// The kParts blocks of a cluster may own the same rows, with a part of the columns each (reduction/cluster_sums.cuh).
//
// Tensor cores multiply zeros as well, and 0 * Inf is NaN. If sums are not finite, the warp multiplies its tiles again,
// with the products of nonzeros alone. So a zero weight contributes nothing, whatever X holds.
//
// The grid's x runs over kRowTiles row blocks times parts, its y over token tiles; each strides if it is smaller than
// needed.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/scatter_entries.cuh"
#include "snippets/reduction/cluster_sums.cuh"

namespace sparsmith {

// kInputColumns: columns of X whose fragments a warp holds. kAhead: tiles requested as far as L2, behind the tile whose
// words go to registers.
template <class Entries, class Input, class Output, int kTileRows, int kTokens, int kInputColumns, int kWarps,
          int kRowTiles, int kParts, int kAhead>
struct ScatterKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTileRows, 16, 32, 64)
  SPARSMITH_TUNE(kTokens, 8, 16, 32, 64)
  SPARSMITH_TUNE(kInputColumns, 32, 64, 128, 256)
  SPARSMITH_TUNE(kWarps, 4, 8, 12, 16)
  SPARSMITH_TUNE(kRowTiles, 1, 2)
  SPARSMITH_TUNE(kAhead, 0, 1)

  using Value = typename Input::Value;
  static constexpr int kTileColumns = scatter::kTileElements / kTileRows;
  static constexpr int kRowBytes = kTileColumns * 2;
  static constexpr int kRowParts = kTileRows / scatter::kPartRows;
  static constexpr int kTokenParts = kTokens / 8;
  static constexpr int kThreads = kWarps * scatter::kLanes;
  static constexpr int kRows = kRowTiles * kTileRows;
  static constexpr int kPartialLine = kRows + 4;  // floats of a token, so that a warp's stores meet all banks
  static_assert(kInputColumns <= kTileColumns, "X is loaded for a tile at most");
  static_assert(kRowTiles == 1 || kInputColumns == kTileColumns, "X is loaded once for the tiles of all row blocks");
  static_assert(kRowTiles <= 2, "lists of entries take turns");

  struct Sums {
    float values[kRowTiles][kRowParts][kTokenParts][4];  // lane 4 g + t: rows g, g + 8 by tokens 2 t, 2 t + 1
    SPARSMITH_DEVICE void clear() {
      SPARSMITH_UNROLL for (int i = 0; i < kRows / scatter::kPartRows * kTokenParts * 4; ++i) at(i) = 0.0F;
    }
    SPARSMITH_DEVICE float& at(int i) {
      return values[i / (kRowParts * kTokenParts * 4)][i / (kTokenParts * 4) % kRowParts][i / 4 % kTokenParts][i % 4];
    }
  };

  // Shared memory: tiles or partial sums, then the first rows of the row blocks' parts, then the sums that other blocks
  // of the cluster send. A warp's first offsets come to the end of its tile, which is zeroed after they have been read.
  static constexpr int kPartialBytes = kTokens * kPartialLine * 4;  // of a warp
  static constexpr int kRowPartsAt =
      kWarps * (kPartialBytes > scatter::kTileBytes ? kPartialBytes : scatter::kTileBytes);
  static constexpr int kSentAt = kRowPartsAt + kRowTiles * kRowParts * 4;
  using SumsOfParts = ClusterSums<kParts, kRows * kTokens, kThreads>;
  static constexpr int kSharedBytes = kSentAt + SumsOfParts::kBytes;

  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const Input& input, const Output& output, int n,
                                   u8* shared) {
    launch_dependents();
    SumsOfParts parts(shared + kSentAt);
    // The compiler knows that this is the same in all lanes: branches on it need no reconvergence.
    const int warp = static_cast<int>(shuffle_index(static_cast<u32>(thread_index() / scatter::kLanes), 0));
    const int share = parts.part * kWarps + warp;
    const int panels = (weight.row_blocks + kRowTiles - 1) / kRowTiles;
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int panel = block_index_x() / kParts; panel < panels; panel += grid_size_x() / kParts) {
        Sums sums;
        const Tiles tiles{weight,
                          input,
                          panel * kRowTiles,
                          first_token,
                          share * weight.column_tiles / (kParts * kWarps),
                          (share + 1) * weight.column_tiles / (kParts * kWarps)};
        u32* first_rows = reinterpret_cast<u32*>(shared + kRowPartsAt);
        scatter::copy_first_rows<kRowTiles, kRowParts>(weight, panel * kRowTiles, first_rows);
        accumulate(tiles, shared + warp * scatter::kTileBytes, sums);
        block_barrier();  // nobody needs a tile any more
        float* partials = reinterpret_cast<float*>(shared);
        put_partials(sums, warp, partials);
        async_commit();
        async_wait<0>();
        block_barrier();
        parts.exchange([&](int i) { return sum_of_warps(partials, i); });
        finish(partials, parts, first_rows, output, weight.rows, first_token, n);
        block_barrier();  // the partial sums have been read: tiles may take their place
      }
    }
    parts.end();
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  using Window = typename Input::template Window<kTokens, kInputColumns>;
  using Cursor = scatter::TileCursor<typename Entries::Words, 1, kRowTiles>;

  static SPARSMITH_DEVICE int lane() { return scatter::lane_of_warp(); }

  // The tiles that a warp multiplies: tiles [begin, end) of each of the row blocks.
  struct Tiles {
    const scatter::Weight& weight;
    const Input& input;
    int first_block;
    int first_token;
    int begin;
    int end;

    // The number among all tiles. A row block that does not exist is replaced by the previous one; its sums go nowhere.
    SPARSMITH_DEVICE int number(int row, int tile) const {
      return first_block * weight.column_tiles + row * stride() + tile;
    }
    SPARSMITH_DEVICE int stride() const {
      return kRowTiles == 1 || first_block + 1 == weight.row_blocks ? 0 : weight.column_tiles;
    }
  };

  // Zeroes 512 bytes.
  static SPARSMITH_DEVICE void zero(u8* part) { *reinterpret_cast<Vector<u32, 4>*>(part + lane() * 16) = {}; }

  static SPARSMITH_DEVICE void accumulate(const Tiles& tiles, u8* tile, Sums& sums) {
    sums.clear();
    if (tiles.begin == tiles.end) {
      wait_for_previous();
      return;
    }
    Entries even;
    Entries odd;
    u32* offsets = reinterpret_cast<u32*>(tile + scatter::kTileBytes - 512);
    Cursor cursor(tiles.weight, tiles.number(0, tiles.begin), tiles.end - tiles.begin, even.list, tiles.stride(),
                  offsets);
    Window x(tiles.input, tiles.first_token, tiles.begin * kTileColumns);
    if (kAhead > 0) prefetch_first(tiles);
    SPARSMITH_UNROLL for (int i = 0; i < scatter::kTileBytes - 512; i += 512) zero(tile + i);
    cursor.begin(even.list, offsets);
    if (kAhead > 0) cursor.prefetch_rest();
    warp_barrier();  // every lane has read its offsets
    zero(tile + scatter::kTileBytes - 512);
    wait_for_previous();  // the first entries are under way
    x.load();
    warp_barrier();
    const u32 tile_at = shared_offset(tile);
    for (int t = tiles.begin; t < tiles.end; t += 2 / kRowTiles) {
      step<0>(tiles, t, tile_at, cursor, even, odd, x, sums);
      if constexpr (kRowTiles == 2) {
        step<1>(tiles, t, tile_at, cursor, odd, even, x, sums);
      } else if (t + 1 < tiles.end) {
        step<0>(tiles, t + 1, tile_at, cursor, odd, even, x, sums);
      }
    }
    if (!finite(sums)) accumulate_nonzeros(tiles, tile, sums);
  }

  // Multiplies a tile of row block kRow, whose entries `list` holds, while the entries of the next tile arrive.
  template <int kRow>
  static SPARSMITH_DEVICE void step(const Tiles& tiles, int t, u32 tile_at, Cursor& cursor, const Entries& list,
                                    Entries& next, Window& x, Sums& sums) {
    constexpr bool kLastRow = kRow == kRowTiles - 1;
    constexpr int kNextRow = (kRow + 1) % kRowTiles;
    const bool last = kLastRow && t + 1 == tiles.end;
    if (list.empty()) {
      if (!last) load<kNextRow>(tiles, t, cursor, next, 0);
      if (!kLastRow) {
        x.turn();
        return;
      }
      SPARSMITH_UNROLL for (int i = 1; i < kTileColumns / kInputColumns; ++i) x.skip();
      if (!last) x.load();
      return;
    }
    const u32 base = Entries::base(tile_at);
    list.put(tiles.weight, tiles.number(kRow, t), base);
    warp_barrier();
    // Done here, after values have been stored and registers are free, so that the entries arrive before the next tile.
    if (!last) load<kNextRow>(tiles, t, cursor, next, list.list.words[0]);
    SPARSMITH_ROLLED for (int first = 0; first < kTileColumns; first += kInputColumns) {
      if (kRow == 0) x.turn();
      SPARSMITH_UNROLL for (int s = 0; s < kInputColumns / 16; ++s) {
        multiply(tile_at, first / 16 + s, x, s, sums.values[kRow]);
      }
      if (kLastRow && (!last || first + kInputColumns < kTileColumns)) x.load();
    }
    warp_barrier();
    list.clear(tiles.weight, base);
    warp_barrier();
  }

  // Prefetches to L2 the words at known places of `count` tiles from `tile` on.
  static SPARSMITH_DEVICE void prefetch(const Tiles& tiles, int row, int tile, int count) {
    constexpr int kLines = Entries::Words::kFixed;
    const u32* first = tiles.weight.entries + static_cast<i64>(tiles.number(row, tile)) * (kLines * scatter::kLanes);
    scatter::prefetch_lines(first, count * kLines);
  }
  // Prefetches these words of the first tiles, except the very first one.
  static SPARSMITH_DEVICE void prefetch_first(const Tiles& tiles) {
    const int count = tiles.end - tiles.begin - 1 < kAhead ? tiles.end - tiles.begin - 1 : kAhead;
    prefetch(tiles, 0, tiles.begin + 1, count);
    if constexpr (kRowTiles == 2) prefetch(tiles, 1, tiles.begin, count + 1);
  }
  // Loads the next tile, t + 1 or t of row block kRow, to registers, and the one kAhead behind it to L2.
  template <int kRow>
  static SPARSMITH_DEVICE void load(const Tiles& tiles, int t, Cursor& cursor, Entries& next, u32 word) {
    cursor.template load<kRow>(next.list, word);
    const int ahead = t + kAhead + (kRow == 0 ? 1 : 0);
    if (kAhead > 0 && ahead < tiles.end) prefetch(tiles, kRow, ahead, 1);
  }

  // Multiplies columns from 16 step on of the tile, in the tile's order, by the s-th 16 columns of x.
  static SPARSMITH_DEVICE void multiply(u32 tile_at, int step, const Window& x, int s,
                                        float (&sums)[kRowParts][kTokenParts][4]) {
    const int row = lane() % 16;
    const u32 chunk = static_cast<u32>(row * kRowBytes + ((lane() / 16) ^ (row % 8)) * 16) ^ (step * 32U);
    u32 w[kRowParts][4];
    SPARSMITH_UNROLL for (int r = 0; r < kRowParts; ++r) load_matrices(tile_at + chunk + r * 16 * kRowBytes, w[r]);
    SPARSMITH_UNROLL for (int r = 0; r < kRowParts; ++r) {
      SPARSMITH_UNROLL for (int i = 0; i < kTokenParts; ++i) {
        const typename Input::Fragment& fragment = x.fragments[i][s / 2];
        TensorMultiply<Value>::add(sums[r][i], w[r], fragment[s % 2 * 2], fragment[s % 2 * 2 + 1]);
      }
    }
  }

  // The same sums, without products of zeros.
  static SPARSMITH_DEVICE void accumulate_nonzeros(const Tiles& tiles, u8* tile, Sums& sums) {
    const u32 base = Entries::base(shared_offset(tile));
    sums.clear();
    SPARSMITH_UNROLL for (int row = 0; row < kRowTiles; ++row) {
      SPARSMITH_ROLLED for (int t = tiles.begin; t < tiles.end; ++t) {
        Entries list;
        const u32* offset = tiles.weight.more_offsets + tiles.number(row, t);
        list.list.turn_to(load_cached(offset), load_cached(offset + 1));
        list.put_unloaded(tiles.weight, tiles.number(row, t), base);
        warp_barrier();
        multiply_nonzeros(tiles.input, tiles.first_token, t * kTileColumns, tile, sums.values[row]);
        warp_barrier();
        list.clear_unloaded(tiles.weight, tiles.number(row, t), base);
        warp_barrier();
      }
    }
  }

  // Whether all sums of the warp are finite.
  static SPARSMITH_DEVICE bool finite(Sums& sums) {
    float check = 0.0F;
    SPARSMITH_UNROLL for (int i = 0; i < kRows / scatter::kPartRows * kTokenParts * 4; ++i) {
      check = multiply_add(sums.at(i), 0.0F, check);
    }
    SPARSMITH_UNROLL for (int distance = 16; distance > 0; distance /= 2) check += shuffle_xor(check, distance);
    return check == 0.0F;
  }

  // Adds the products of a dense tile's nonzeros; each lane adds those of its own sums.
  static SPARSMITH_DEVICE void multiply_nonzeros(const Input& input, int first_token, int first_column, const u8* tile,
                                                 float (&sums)[kRowParts][kTokenParts][4]) {
    const int group = lane() / 4;
    const int pair = lane() % 4 * 2;
    SPARSMITH_ROLLED for (int i = 0; i < kTileColumns; ++i) {
      const int chunk = i / 8;
      const int column =
          first_column +
          (Input::kNatural ? i : chunk / 4 * 32 + i % 8 / 2 * 8 + chunk / 2 % 2 * 4 + chunk % 2 * 2 + i % 2);
      const u32 offset = group * kRowBytes + (chunk ^ group) * 16 + i % 8 * 2;
      // Token by token in a loop: rare code should cost the rest no registers.
      SPARSMITH_ROLLED for (int t = 0; t < kTokenParts * 2; ++t) {
        const float x = input.element(first_token + t / 2 * 8 + pair + t % 2, column);
        SPARSMITH_UNROLL for (int r = 0; r < kRowParts * 2; ++r) {
          const Value w = *reinterpret_cast<const Value*>(tile + offset + r * 8 * kRowBytes);
          if ((w.bits & 0x7FFFU) == 0) continue;
          SPARSMITH_UNROLL for (int s = 0; s < kTokenParts * 2; ++s) {
            float& sum = sums[r / 2][s / 2][r % 2 * 2 + s % 2];
            if (s == t) sum = multiply_add(to_float(w), x, sum);
          }
        }
      }
    }
  }

  // partials [warp][token][kPartialLine]
  static SPARSMITH_DEVICE void put_partials(const Sums& sums, int warp, float* partials) {
    const u32 lane = known_here(static_cast<u32>(scatter::lane_of_warp()));
    const u32 group = lane / 4;
    const u32 pair = lane % 4 * 2;
    float* of_warp = partials + warp * kTokens * kPartialLine;
    SPARSMITH_UNROLL for (int r = 0; r < kRowTiles * kRowParts; ++r) {
      SPARSMITH_UNROLL for (int i = 0; i < kTokenParts; ++i) {
        SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
          of_warp[(i * 8 + pair + e % 2) * kPartialLine + r * 16 + group + e / 2 * 8] =
              sums.values[r / kRowParts][r % kRowParts][i][e];
        }
      }
    }
  }

  // Neighbouring outputs are neighbours in Y.
  static SPARSMITH_DEVICE int row_of(int i) { return Input::kTokenMajor ? i % kRows : i / kTokens; }
  static SPARSMITH_DEVICE int token_of(int i) { return Input::kTokenMajor ? i / kRows : i % kTokens; }

  // The sum of output i over the warps.
  static SPARSMITH_DEVICE float sum_of_warps(const float* partials, int i) {
    const float* from = partials + token_of(i) * kPartialLine + row_of(i);
    float sum = 0.0F;
    SPARSMITH_UNROLL for (int w = 0; w < kWarps; ++w) sum += from[w * kTokens * kPartialLine];
    return sum;
  }

  static SPARSMITH_DEVICE void finish(const float* partials, const SumsOfParts& parts, const u32* first_rows,
                                      const Output& output, int rows, int first_token, int n) {
    for (int i = parts.first() + static_cast<int>(known_here(thread_index())); i < parts.first() + SumsOfParts::kOwn;
         i += kThreads) {
      const u32 row_of_y = first_rows[row_of(i) / scatter::kPartRows] + row_of(i) % scatter::kPartRows;
      if (row_of_y < static_cast<u32>(rows) && first_token + token_of(i) < n) {
        const float total[1] = {parts.total(i, sum_of_warps(partials, i))};
        output.store(row_of_y, first_token + token_of(i), n, total);
      }
    }
  }
};

}  // namespace sparsmith
