// values = dY X^T where the weight has elements: one thread group per row; its column lanes share out the row's
// nonzeros.
//
// A nonzero (row, column) is the product of a line of dY and a line of X, summed over tokens. The token lanes of a
// nonzero share out the tokens, kTokens at a time, and add up by shuffles. A thread works on kNonzeros nonzeros at
// once, which share the loaded elements of dY. If the segments of a packing are the rows in order, without padding, its
// nonzeros have the order of CSR, which is the order of the output.
//
// The grid's x runs over rows, and strides if it is smaller than needed.
#pragma once

#include "formats/csr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Index, class Input, class Sums, class Shuffle, class Output, int kTokens, int kColumnLanes,
          int kThreads>
struct SampledRowsKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTokens, 1, 2, 4, 8)
  SPARSMITH_TUNE(kColumnLanes, 1, 2, 4, 8, 16, 32)
  SPARSMITH_TUNE(kThreads, 64, 128, 256)

  static constexpr int kNonzeros = Sums::kRows;
  static constexpr int kTokenLanes = Shuffle::kLanes;
  static constexpr int kGroupThreads = kTokenLanes * kColumnLanes;
  static constexpr int kGroups = kThreads / kGroupThreads;
  static_assert(kGroupThreads <= 32, "a row's lanes lie in one warp");
  static_assert(Sums::kTokens == 1, "an output is one sum over all tokens");

  static SPARSMITH_DEVICE void run(const csr::Segment* segments, const Index* columns, Input& x, Input& dy,
                                   const Output& output, int rows, int n) {
    launch_dependents();
    const int lane = thread_index() % kGroupThreads;
    const int token_lane = lane % kTokenLanes;
    const int column_lane = lane / kTokenLanes;
    const int group = thread_index() / kGroupThreads;
    wait_for_previous();
    for (int base = block_index_x() * kGroups; base < rows; base += grid_size_x() * kGroups) {
      const int row = base + group;
      csr::Segment segment = {0, 0};
      if (row < rows) segment = load_cached(segments + row);
      // The rows of a warp have different lengths. Its lanes make equally many iterations, so that all take part in
      // shuffles.
      for (u32 first = 0; warp_any(first < segment.length); first += kColumnLanes * kNonzeros) {
        const u32 at = first + column_lane;
        Sums sums;
        sums.clear();
        if (at < segment.length) multiply(columns + segment.first, x, dy, sums, row, at, segment.length, token_lane, n);
        Shuffle::combine(sums);
        if (token_lane == 0) {
          SPARSMITH_UNROLL for (int i = 0; i < kNonzeros; ++i) {
            const u32 nonzero = at + i * kColumnLanes;
            if (nonzero < segment.length) output.store(segment.first + nonzero, 0, 1, sums.values[i]);
          }
        }
      }
    }
  }

 private:
  static SPARSMITH_DEVICE void multiply(const Index* columns, Input& x, Input& dy, Sums& sums, int row, u32 at,
                                        u32 length, int token_lane, int n) {
    u32 column[kNonzeros];
    SPARSMITH_UNROLL for (int i = 0; i < kNonzeros; ++i) {
      const u32 nonzero = at + i * kColumnLanes;
      column[i] = static_cast<u32>(load_cached(columns + (nonzero < length ? nonzero : at)));
    }
    for (int first = 0; first < n; first += kTokenLanes * kTokens) {
      x.begin_tile(first, token_lane, n);
      dy.begin_tile(first, token_lane, n);
      float gradient[kTokens];
      dy.load(static_cast<u32>(row), gradient);
      SPARSMITH_UNROLL for (int i = 0; i < kNonzeros; ++i) {
        float activation[kTokens];
        x.load(column[i], activation);
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
          const float factor[1] = {activation[t]};
          sums.add(i, gradient[t], factor);
        }
      }
    }
  }
};

}  // namespace sparsmith
