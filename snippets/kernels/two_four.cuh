// Y = W X for a two_four weight: at most two nonzeros in four columns; sparse tensor cores multiply them as stored.
//
// A block owns some rows and a tile of tokens. Its warps stand side by side over the rows, 16 R rows each; they load
// the same X, which L1 then holds. The warps of the same rows share out the strips of K; each streams its strips
// through its own ring. Values and metadata come in the order that mma.sp needs, so that nothing is decoded. X comes
// from global memory, as operands too. At the end the sums of warps meet in shared memory. The grid's x runs over rows,
// its y over token tiles; both stride if the grid is smaller. Its z is the part of K; the sums of parts may meet in
// clusters (reduction/cluster_sums.cuh).
//
// A group with fewer than two nonzeros multiplies some X by 0, and 0 * Inf is NaN. So a sum that is not finite is added
// up again from the elements that the weight holds.
#pragma once

#include "formats/two_four_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/reduction/cluster_sums.cuh"

namespace sparsmith {

// kRowWarps: warps side by side, with 16 R rows each. kWarps: warps that share out K for each of these. kParts: parts
// of K; the blocks of the parts are a cluster.
template <class Ring, class Input, class Sums, class Output, int kRowWarps, int kWarps, int kParts>
struct TwoFourKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kRowWarps, 1, 2, 4)
  SPARSMITH_TUNE(kWarps, 2, 4, 8, 16)

  using Value = typename Input::Value;
  using Tiles = typename Ring::Bounds::Tiles;
  using Fragment = typename Input::Fragment;
  static constexpr int kThreads = kRowWarps * kWarps * two_four::kLanes;
  static constexpr int kTiles = Tiles::kTiles;
  static constexpr int kTokenTiles = Sums::kTokenTiles;
  static constexpr int kWarpRows = Sums::kRows;
  static constexpr int kRows = kRowWarps * kWarpRows;
  static constexpr int kTokens = Sums::kTokens;
  using SumsOfParts = ClusterSums<kParts, kRows * kTokens, kThreads>;

  // The work of a block: strips [first_strip, end_strip) of its rows, for tokens below n.
  struct Work {
    int rows;
    int first_strip;
    int end_strip;
    int n;
  };

  //   sums_of_warps: kRowWarps * Sums::kSharedBytes in shared memory, in the place of the ring.
  //   sent: SumsOfParts::kBytes beside it.
  static SPARSMITH_DEVICE void run(Ring& ring, Input& input, const Output& output, const Work& work,
                                   float* sums_of_warps, u8* sent) {
    launch_dependents();
    SumsOfParts parts(sent);
    const int row_warp = warp_index() / kWarps;
    const int begin = work.first_strip + warp_index() % kWarps;
    for (int first_token = block_index_y() * kTokens; first_token < work.n; first_token += grid_size_y() * kTokens) {
      for (int block_row = block_index_x(); block_row * kRows < work.rows; block_row += grid_size_x()) {
        const int row_tile = block_row * kRowWarps + row_warp;
        const int end = row_tile * kWarpRows < work.rows ? work.end_strip : begin;
        ring.bounds.turn_to(row_tile, begin, end);
        ring.start();
        wait_for_previous();  // the first strips are under way
        input.turn_to(first_token, begin * two_four::kStripColumns);
        Sums sums;
        sums.clear();
        multiply_strips(ring, input, begin, end, sums);
        block_barrier();  // the ring has been read
        sums.put(sums_of_warps);
        block_barrier();
        const auto sum_of = [&](int i) {
          return sum_over_warps(ring.bounds.tiles, input, work, sums_of_warps, block_row * kRows + row_of(i),
                                first_token, token_of(i));
        };
        parts.exchange(sum_of);
        store(output, parts, sum_of, block_row * kRows, work.rows, first_token, work.n);
        ring.copies_follow();
        block_barrier();  // the sums have been read
      }
    }
    parts.end();
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  // X is loaded one strip ahead, into the registers of operands that are no longer needed.
  static SPARSMITH_DEVICE void multiply_strips(Ring& ring, Input& input, int begin, int end, Sums& sums) {
    Fragment x[kTokenTiles];
    load<0>(input, begin, end, x);
    load<1>(input, begin, end, x);
    warp_barrier();  // the ring is ready
    SPARSMITH_ROLLED for (int strip = begin; strip < end; strip += kWarps) {
      const u8* tiles = ring.wait();
      input.advance(kWarps * two_four::kStripColumns);
      u32 metadata[kTiles];
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) metadata[r] = Tiles::metadata(tiles, r);
      multiply<0>(tiles, metadata, x, sums);
      load<0>(input, strip + kWarps, end, x);
      multiply<1>(tiles, metadata, x, sums);
      load<1>(input, strip + kWarps, end, x);
      ring.release();
    }
  }

  template <int kStep>
  static SPARSMITH_DEVICE void load(const Input& input, int strip, int end, Fragment (&x)[kTokenTiles]) {
    if (strip >= end) return;
    SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
      input.template load<kStep>(j, strip * two_four::kStripColumns, x[j]);
    }
  }

  template <int kStep>
  static SPARSMITH_DEVICE void multiply(const u8* tiles, const u32 (&metadata)[kTiles],
                                        const Fragment (&x)[kTokenTiles], Sums& sums) {
    u32 a[kTiles][4];
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      const auto operand = Tiles::operand(tiles, r, kStep);
      SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) a[r][i] = operand[i];
    }
    SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
      u32 b[4];
      Input::template take<kStep>(x[j], b);
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
        SparseTensorMultiply<Value>::template add<kStep>(sums.values[r][j], a[r], b, metadata[r]);
      }
    }
  }

  // This block's sum of an output: row `row` of Y, token `token` behind the first token.
  static SPARSMITH_DEVICE float sum_over_warps(const Tiles& tiles, const Input& input, const Work& work,
                                               const float* sums_of_warps, int row, int first_token, int token) {
    if (row >= work.rows) return 0.0F;
    const float* of_row = sums_of_warps + row % kRows / kWarpRows * (kWarps * Sums::kWarpSums);
    const float sum = Sums::total(of_row, row % kWarpRows, token);
    if (sum * 0.0F == 0.0F) return sum;
    return tiles.exact_sum(input, row / kWarpRows, work.first_strip, work.end_strip, row % kWarpRows,
                           first_token + token);
  }

  // Neighbouring outputs are neighbouring elements of Y.
  static SPARSMITH_DEVICE int row_of(int i) { return Input::kTokenMajor ? i % kRows : i / kTokens; }
  static SPARSMITH_DEVICE int token_of(int i) { return Input::kTokenMajor ? i / kRows : i % kTokens; }

  template <class SumOf>
  static SPARSMITH_DEVICE void store(const Output& output, const SumsOfParts& parts, const SumOf& sum_of, int first_row,
                                     int rows, int first_token, int n) {
    for (int i = parts.first() + thread_index(); i < parts.first() + SumsOfParts::kOwn; i += kThreads) {
      if (first_row + row_of(i) < rows && first_token + token_of(i) < n) {
        const float sum[1] = {parts.total(i, sum_of(i))};
        output.store(static_cast<u32>(first_row + row_of(i)), first_token + token_of(i), n, sum);
      }
    }
  }
};

}  // namespace sparsmith
