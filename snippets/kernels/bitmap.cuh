// Y = W X for a bitmap weight: loaded sparse, multiplied dense by tensor cores.
//
// A block owns 16 R rows and a tile of tokens; its warps share out the strips of K. Each streams its strips through a
// ring of its own, decodes them straight into A operands, and multiplies with operands of X from global memory. At the
// end the warps' sums meet in shared memory. The grid's x runs over rows, its y over token tiles; both stride when
// smaller.
//
// Tensor cores multiply zeros too, and 0 * Inf is NaN. So a strip in which X holds Inf or NaN is multiplied with 0 in
// their place, and the products of the stored elements with them are added one by one: a weight that is not stored
// contributes nothing whatever X holds.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Ring, class Input, class Values, class Sums, class Output, int kWarps>
struct BitmapKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)

  using Value = typename Input::Value;
  using Fragment = typename Input::Fragment;
  static constexpr int kThreads = kWarps * bitmap::kLanes;
  static constexpr int kTiles = Values::kTiles;
  static constexpr int kTokenTiles = Sums::kTokenTiles;
  static constexpr int kRows = Sums::kRows;
  static constexpr int kTokens = Sums::kTokens;
  static constexpr int kOutputs = kRows * kTokens;

  // extras: [kOutputs] in shared memory, beside the ring; the sums take the ring's place.
  static SPARSMITH_DEVICE void run(Ring& ring, const Input& input, const Output& output, int rows, int row_tiles,
                                   int strips, int n, float* sums_of_warps, float* extras) {
    launch_dependents();
    const int warp = thread_index() / bitmap::kLanes;
    for (int i = thread_index(); i < kOutputs; i += kThreads) extras[i] = 0.0F;
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int row_tile = block_index_x(); row_tile < row_tiles; row_tile += grid_size_x()) {
        ring.begin(row_tile * strips + warp, row_tile * strips + strips);
        wait_for_previous();  // the first strips are under way
        block_barrier();      // extras are 0
        Sums sums;
        sums.clear();
        for (int strip = warp; strip < strips; strip += kWarps) {
          Fragment x[kTokenTiles];
          SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
            input.load(first_token + j * 8, strip * bitmap::kStripColumns, x[j]);
          }
          const u8* packed = ring.wait();
          Values values;
          values.begin(packed);
          if (warp_any(!is_finite(x))) {
            add_infinite<0>(values, input, first_token, strip * bitmap::kStripColumns, extras);
            drop_infinite(x);
          }
          multiply(values, x, sums);
          ring.release();
        }
        block_barrier();  // the ring has been read
        sums.put(sums_of_warps);
        block_barrier();
        store(output, sums_of_warps, extras, row_tile * kRows, rows, first_token, n);
        block_barrier();  // the sums have been read
      }
    }
  }

 private:
  static SPARSMITH_DEVICE void multiply(const Values& values, const Fragment (&x)[kTokenTiles], Sums& sums) {
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      multiply_fragment<0>(values, x, sums, r);
      multiply_fragment<1>(values, x, sums, r);
      multiply_fragment<2>(values, x, sums, r);
      multiply_fragment<3>(values, x, sums, r);
    }
  }

  template <int kFragment>
  static SPARSMITH_DEVICE void multiply_fragment(const Values& values, const Fragment (&x)[kTokenTiles], Sums& sums,
                                                 int r) {
    u32 a[4];
    values.template take<kFragment>(r, a);
    SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
      sums.add(r, j, a, x[j].words[2 * kFragment], x[j].words[2 * kFragment + 1]);
    }
  }

  static SPARSMITH_DEVICE bool is_finite(const Fragment (&x)[kTokenTiles]) {
    u32 sum = 0;
    SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
      SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) sum = add_zero_times<Value>(x[j].words[i], sum);
    }
    return sum == 0;
  }

  static SPARSMITH_DEVICE void drop_infinite(Fragment (&x)[kTokenTiles]) {
    SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
      SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) {
        const u32 word = x[j].words[i];
        const u32 low = add_zero_times<Value>(word & 0xFFFFU, 0) == 0 ? word & 0xFFFFU : 0;
        const u32 high = add_zero_times<Value>(word >> 16, 0) == 0 ? word & 0xFFFF0000U : 0;
        x[j].words[i] = low | high;
      }
    }
  }

  // The products of this lane's elements with Inf and NaN, which are Inf or NaN: any order gives the same sum.
  template <int kFragment>
  static SPARSMITH_DEVICE void add_infinite(const Values& values, const Input& input, int first_token, int first_column,
                                            float* extras) {
    const int lane = thread_index() % bitmap::kLanes;
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      const u32 stored = values.words[r] >> (kFragment * bitmap::kFragmentBits) & 0xFFU;
      const u16* value = values.template first<kFragment>(r);
      SPARSMITH_ROLLED for (int b = 0; b < bitmap::kFragmentBits; ++b) {
        if ((stored >> b & 1U) == 0) continue;
        const float weight = to_float(Value{*value++});
        const int bit = kFragment * bitmap::kFragmentBits + b;
        const int column = first_column + 16 * (lane % 4) + 4 * kFragment + 2 * (b / 4) + b % 2;
        const int row = r * bitmap::kTileRows + lane / 4 + 8 * (bit / 2 % 2);
        SPARSMITH_ROLLED for (int token = 0; token < kTokens; ++token) {
          const float factor = input.element(first_token + token, column);
          if (factor * 0.0F != 0.0F) atomic_add(extras + token * kRows + row, weight * factor);
        }
      }
    }
    if constexpr (kFragment + 1 < bitmap::kFragments) {
      add_infinite<kFragment + 1>(values, input, first_token, first_column, extras);
    }
  }

  // Neighbouring threads store neighbouring elements of Y. Leaves extras at 0.
  static SPARSMITH_DEVICE void store(const Output& output, const float* sums_of_warps, float* extras, int first_row,
                                     int rows, int first_token, int n) {
    for (int i = thread_index(); i < kOutputs; i += kThreads) {
      const int row = Input::kTokenMajor ? i % kRows : i / kTokens;
      const int token = Input::kTokenMajor ? i / kRows : i % kTokens;
      const float extra = extras[token * kRows + row];
      extras[token * kRows + row] = 0.0F;
      if (first_row + row < rows && first_token + token < n) {
        const float sum[1] = {Sums::total(sums_of_warps, row, token) + extra};
        output.store(static_cast<u32>(first_row + row), first_token + token, n, sum);
      }
    }
  }
};

}  // namespace sparsmith
