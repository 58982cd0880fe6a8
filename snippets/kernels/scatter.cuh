// Y = W X on tensor cores, W stored sparse: each warp scatters the nonzeros of a tile of W into its own zeroed tile in
// shared memory, multiplies the dense tile, and clears what it has stored.
//
// A block owns kTileRows rows. Its warps share out the tiles of those rows, neighbouring ones to each, and need no
// barrier among them until the end, when their sums meet in shared memory and are added in the order of warps: two runs
// give equal bits.
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
  static constexpr int kRowParts = kTileRows / 16;  // of a tile: rows of an mma
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

  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const Input& input, const Output& output, int n,
                                   u8* shared) {
    launch_dependents();
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int block = block_index_x(); block < weight.row_blocks; block += grid_size_x()) {
        block_barrier();  // the last row block's partial sums have been read
        Sums sums;
        accumulate(weight, input, block, first_token, shared + thread_index() / scatter::kLanes * scatter::kTileBytes,
                   sums);
        block_barrier();  // nobody needs a tile any more
        put_partials(sums, reinterpret_cast<float*>(shared));
        block_barrier();
        finish(reinterpret_cast<const float*>(shared), output, block * kTileRows, weight.rows, first_token, n);
      }
    }
  }

 private:
  static SPARSMITH_DEVICE int lane() { return thread_index() % scatter::kLanes; }

  // The sums of this warp's tiles.
  static SPARSMITH_DEVICE void accumulate(const scatter::Weight& weight, const Input& input, int block, int first_token,
                                          u8* tile, Sums& sums) {
    const int warp = thread_index() / scatter::kLanes;
    const int begin = warp * weight.column_tiles / kWarps;
    const int end = (warp + 1) * weight.column_tiles / kWarps;
    scatter::TileCursor cursor(weight, block * weight.column_tiles + begin, end - begin);
    sums.clear();
    Stage stage{input, weight.entries, first_token, begin * kTileColumns, end * kTileColumns, tile};
    Entries even;
    Entries odd;
    if (begin < end) cursor.load(0, even);
    if (begin + 1 < end) cursor.load(1, odd);
    SPARSMITH_UNROLL for (int i = 0; i < scatter::kTileBytes / 512; ++i) {
      *reinterpret_cast<Vector<u32, 4>*>(tile + i * 512 + lane() * 16) = {};
    }
    wait_for_previous();  // the first entries are under way
    stage.load_input();
    warp_barrier();
    for (int t = 0; t < end - begin; t += 2) {
      stage.multiply(even, sums);
      if (t + 2 < end - begin) cursor.load(t + 2, even);
      if (t + 1 < end - begin) {
        stage.multiply(odd, sums);
        if (t + 3 < end - begin) cursor.load(t + 3, odd);
      }
    }
    if (!finite(sums)) {
      scatter::TileCursor again(weight, block * weight.column_tiles + begin, end - begin);
      sums.clear();
      SPARSMITH_ROLLED for (int t = 0; t < end - begin; ++t) {
        again.find(t, even);
        even.put_unloaded(weight.entries, tile);
        warp_barrier();
        multiply_nonzeros(input, first_token, (begin + t) * kTileColumns, tile, sums);
        warp_barrier();
        even.clear_unloaded(weight.entries, tile);
        warp_barrier();
      }
    }
  }

  // What a warp goes through its tiles with: X is loaded as soon as the fragments before it have been used.
  struct Stage {
    const Input& input;
    const u32* entries;
    int first_token;
    int column;  // that x begins at
    int end;     // of the warp's columns
    u8* tile;
    typename Input::Fragment x[kTokenParts][kInputParts] = {};

    SPARSMITH_DEVICE void load_input() {
      if (column < end) {
        SPARSMITH_UNROLL for (int i = 0; i < kTokenParts; ++i) {
          SPARSMITH_UNROLL for (int u = 0; u < kInputParts; ++u) {
            x[i][u] = input.load(first_token + i * 8, column + u * 32);
          }
        }
      }
    }

    SPARSMITH_DEVICE void multiply(const Entries& list, Sums& sums) {
      if (Entries::kMinRounds == 0 && list.rounds == 0) {
        column += kTileColumns;
        load_input();
        return;
      }
      list.put(entries, tile);
      warp_barrier();
      SPARSMITH_ROLLED for (int first = 0; first < kTileColumns; first += kInputColumns) {
        SPARSMITH_UNROLL for (int s = 0; s < kInputColumns / 16; ++s) multiply_step(first / 16 + s, s, sums);
        column += kInputColumns;
        load_input();
      }
      warp_barrier();
      list.clear(entries, tile);
      warp_barrier();
    }

    // Columns 16 step and on of the tile, as they lie there, by those that x holds as its s-th 16.
    SPARSMITH_DEVICE void multiply_step(int step, int s, Sums& sums) {
      const int row = lane() % 16;
      const u32 chunk = static_cast<u32>(row * kRowBytes + ((lane() / 16) ^ (row % 8)) * 16) ^ (step * 32U);
      u32 w[kRowParts][4];
      SPARSMITH_UNROLL for (int r = 0; r < kRowParts; ++r) load_matrices(tile + chunk + r * 16 * kRowBytes, w[r]);
      SPARSMITH_UNROLL for (int r = 0; r < kRowParts; ++r) {
        SPARSMITH_UNROLL for (int i = 0; i < kTokenParts; ++i) {
          const typename Input::Fragment& fragment = x[i][s / 2];
          TensorMultiply<Value>::add(sums.values[r][i], w[r], fragment[s % 2 * 2], fragment[s % 2 * 2 + 1]);
        }
      }
    }
  };

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
  static SPARSMITH_DEVICE void put_partials(const Sums& sums, float* partials) {
    const int group = lane() / 4;
    const int pair = lane() % 4 * 2;
    float* of_warp = partials + thread_index() / scatter::kLanes * kTokens * kPartialLine;
    SPARSMITH_UNROLL for (int r = 0; r < kRowParts; ++r) {
      SPARSMITH_UNROLL for (int i = 0; i < kTokenParts; ++i) {
        SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
          of_warp[(i * 8 + pair + e % 2) * kPartialLine + r * 16 + group + e / 2 * 8] = sums.values[r][i][e];
        }
      }
    }
  }

  // Neighbouring threads take outputs that lie side by side.
  static SPARSMITH_DEVICE void finish(const float* partials, const Output& output, int first_row, int rows,
                                      int first_token, int n) {
    for (int i = thread_index(); i < kTileRows * kTokens; i += kThreads) {
      const int row = Input::kTokenMajor ? i % kTileRows : i / kTokens;
      const int token = Input::kTokenMajor ? i / kTileRows : i % kTokens;
      if (first_row + row < rows && first_token + token < n) {
        float total[1] = {0.0F};
        SPARSMITH_UNROLL for (int w = 0; w < kWarps; ++w) {
          total[0] += partials[(w * kTokens + token) * kPartialLine + row];
        }
        output.store(static_cast<u32>(first_row + row), first_token + token, n, total);
      }
    }
  }
};

}  // namespace sparsmith
