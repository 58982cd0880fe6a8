// Y = W X for a bitmap weight: it is loaded sparse and multiplied dense by tensor cores.
//
// A block owns R parts of 16 rows and a tile of tokens; its warps share out the strips of K. Each warp streams its
// strips through its own ring, decodes them straight into A operands, and multiplies them with operands of X from
// global memory. At the end the warps' sums meet in shared memory. The grid's x runs over rows, its y over token tiles;
// both stride if the grid is smaller. Its z is the part of K; the sums of parts may meet in clusters
// (reduction/cluster_sums.cuh).
//
// Tensor cores multiply zeros too, and 0 * Inf is NaN. So a strip in which X holds Inf or NaN is multiplied with 0 in
// their place. Then the products of the stored elements with Inf and NaN are added one by one. So a weight that is not
// stored contributes nothing, whatever X holds.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/reduction/cluster_sums.cuh"

namespace sparsmith {

// kParts: parts of K; the blocks of the parts are a cluster.
template <class Ring, class Input, class Values, class Sums, class Output, int kWarps, int kParts>
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
  using SumsOfParts = ClusterSums<kParts, kOutputs, kThreads>;
  static constexpr int kExtraBytes = kOutputs * 4 + bitmap::kRowPartsBytes + SumsOfParts::kBytes;

  // Values are not merged into pairs. They are multiplied as operands whose high halves are 0: twice the
  // multiplications, a quarter of the instructions of merging.
  static constexpr bool kHalves = kTokenTiles == 1;

  // The block multiplies strips [first_strip, end_strip) of each row tile.
  //   row_parts: [row_tiles][R], the first row of each part.
  //   extras: kExtraBytes in shared memory, beside the ring; the sums take the ring's place.
  static SPARSMITH_DEVICE void run(Ring& ring, Input& input, const Output& output, const u32* row_parts, int rows,
                                   int row_tiles, int first_strip, int end_strip, int n, float* sums_of_warps,
                                   float* extras) {
    launch_dependents();
    u32* first_rows = reinterpret_cast<u32*>(extras + kOutputs);
    SumsOfParts parts(reinterpret_cast<u8*>(first_rows) + bitmap::kRowPartsBytes);
    const int begin = first_strip + warp_index();
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int row_tile = block_index_x(); row_tile < row_tiles; row_tile += grid_size_x()) {
        ring.bounds.turn_to(row_tile, begin, end_strip);
        ring.start();
        if (thread_index() == 0) async_copy<kTiles * 4>(first_rows, row_parts + row_tile * kTiles);
        for (int i = thread_index(); i < kOutputs; i += kThreads) extras[i] = 0.0F;
        wait_for_previous();  // the first strips are under way
        Fragment x[kTokenTiles];
        input.turn_to(first_token, begin * bitmap::kStripColumns);
        load<0>(input, begin, end_strip, x);
        load<1>(input, begin, end_strip, x);
        input.advance(kWarps * bitmap::kStripColumns);
        block_barrier();  // extras are 0, and the ring is ready
        Sums sums;
        sums.clear();
        SPARSMITH_ROLLED for (int strip = begin; strip < end_strip; strip += kWarps) {
          const u8* packed = ring.wait();
          Values values;
          values.begin(packed);
          if (warp_any(!is_finite(x))) {
            add_infinite(packed, input, first_token, strip * bitmap::kStripColumns, extras);
            drop_infinite(x);
          }
          multiply_fragment<0>(values, x, sums);
          multiply_fragment<1>(values, x, sums);
          load<0>(input, strip + kWarps, end_strip, x);  // where operands are spent come those of the next strip
          // No branch surrounds loads of these operands. Without this barrier, the values of all fragments would be
          // read at once, into more registers than there are, and these loads would come last.
          if constexpr (Input::kLaidOut) warp_barrier();
          multiply_fragment<2>(values, x, sums);
          multiply_fragment<3>(values, x, sums);
          load<1>(input, strip + kWarps, end_strip, x);
          input.advance(kWarps * bitmap::kStripColumns);
          ring.release();
        }
        block_barrier();  // the ring has been read
        sums.put(sums_of_warps);
        async_commit();
        async_wait<0>();  // for the first rows
        block_barrier();
        parts.exchange([&](int i) { return sum_of(sums_of_warps, extras, i); });
        store(output, parts, sums_of_warps, extras, first_rows, rows, first_token, n);
        ring.copies_follow();
        block_barrier();  // the sums have been read
      }
    }
    parts.end();
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  template <int kHalf>
  static SPARSMITH_DEVICE void load(const Input& input, int strip, int end_strip, Fragment (&x)[kTokenTiles]) {
    if (strip >= end_strip) return;
    SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
      input.template load<kHalf>(j, strip * bitmap::kStripColumns, x[j]);
    }
  }

  template <int kFragment>
  static SPARSMITH_DEVICE void multiply_fragment(const Values& values, const Fragment (&x)[kTokenTiles], Sums& sums) {
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      u32 v[8];
      values.template take<kFragment>(r, v);
      if constexpr (kHalves) {
        const u32 low[4] = {v[0], v[2], v[4], v[6]};
        const u32 high[4] = {v[1], v[3], v[5], v[7]};
        SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
          const u32 b0 = x[j].words[2 * kFragment];
          const u32 b1 = x[j].words[2 * kFragment + 1];
          sums.add(r, j, low, b0, b1);
          sums.add(r, j, high, b0 >> 16, b1 >> 16);
        }
      } else {
        const u32 a[4] = {permute_bytes(v[0], v[1], 0x5410), permute_bytes(v[2], v[3], 0x5410),
                          permute_bytes(v[4], v[5], 0x5410), permute_bytes(v[6], v[7], 0x5410)};
        SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
          sums.add(r, j, a, x[j].words[2 * kFragment], x[j].words[2 * kFragment + 1]);
        }
      }
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

  // Adds the products of this lane's elements with Inf and NaN, which are Inf or NaN: any order gives the same sum.
  // This is rare, so it uses loops.
  static SPARSMITH_DEVICE void add_infinite(const u8* packed, const Input& input, int first_token, int first_column,
                                            float* extras) {
    const int lane = lane_index();
    SPARSMITH_ROLLED for (int run = 0; run < kTiles * Values::kRuns; ++run) {
      const int r = run / Values::kRuns;
      const u32 stored = Values::run_bits(packed, r, run % Values::kRuns);
      const u16* value = Values::first(packed, r, run % Values::kRuns);
      SPARSMITH_ROLLED for (int b = 0; b < Values::kRunBits; ++b) {
        if ((stored >> b & 1U) == 0) continue;
        const float weight = to_float(Value{*value++});
        const int bit = run % Values::kRuns * Values::kRunBits + b;
        const int column = first_column + 16 * (lane % 4) + 4 * (bit / 8) + 2 * (bit / 4 % 2) + bit % 2;
        const int row = r * bitmap::kTileRows + lane / 4 + 8 * (bit / 2 % 2);
        SPARSMITH_ROLLED for (int token = 0; token < kTokens; ++token) {
          const float factor = input.element(first_token + token, column);
          if (factor * 0.0F != 0.0F) atomic_add(extras + token * kRows + row, weight * factor);
        }
      }
    }
  }

  // Neighbouring outputs are neighbouring elements of Y.
  static SPARSMITH_DEVICE int row_of(int i) { return Input::kTokenMajor ? i % kRows : i / kTokens; }
  static SPARSMITH_DEVICE int token_of(int i) { return Input::kTokenMajor ? i / kRows : i % kTokens; }

  // This block's sum of output i.
  static SPARSMITH_DEVICE float sum_of(const float* sums_of_warps, const float* extras, int i) {
    return Sums::total(sums_of_warps, row_of(i), token_of(i)) + extras[token_of(i) * kRows + row_of(i)];
  }

  static SPARSMITH_DEVICE void store(const Output& output, const SumsOfParts& parts, const float* sums_of_warps,
                                     const float* extras, const u32* first_rows, int rows, int first_token, int n) {
    for (int i = parts.first() + thread_index(); i < parts.first() + SumsOfParts::kOwn; i += kThreads) {
      const u32 row = first_rows[row_of(i) / bitmap::kTileRows] + row_of(i) % bitmap::kTileRows;
      if (row < static_cast<u32>(rows) && first_token + token_of(i) < n) {
        const float sum[1] = {parts.total(i, sum_of(sums_of_warps, extras, i))};
        output.store(row, first_token + token_of(i), n, sum);
      }
    }
  }
};

}  // namespace sparsmith
