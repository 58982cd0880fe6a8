// The epilog behind a dense gradient: from alpha * dY X^T at all places of a weight, as a library left it in the
// workspace, to values where the weight has elements.
//
// A warp owns a row. Its lanes take neighbouring nonzeros, so loads of columns and stores of values are coalesced, and
// loads of the gradient share sectors where elements lie close together. A lane has kNonzeros loads in flight. If the
// segments of a packing are the rows in order, without padding, its nonzeros have the order of CSR, which is the order
// of the output.
//
// The grid's x runs over rows, and strides if it is smaller than needed.
#pragma once

#include "formats/csr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Index, class Value, class Output, int kNonzeros, int kThreads>
struct DenseGatherKernel {
  SPARSMITH_ROLE(kernel)

  // gradient: [rows][cols].
  static SPARSMITH_DEVICE void run(const csr::Segment* segments, const Index* columns, const Value* gradient,
                                   const Output& output, int rows, int cols) {
    launch_dependents();
    constexpr int kRows = kThreads / 32;
    const u32 lane = static_cast<u32>(lane_index());
    wait_for_previous();
    for (int row = block_index_x() * kRows + warp_index(); row < rows; row += grid_size_x() * kRows) {
      const csr::Segment segment = load_cached(segments + row);
      const Value* const line = gradient + static_cast<i64>(row) * cols;
      for (u32 first = lane; first < segment.length; first += 32 * kNonzeros) {
        // Behind the row's end, its last nonzero again: no load waits for a branch.
        Index column[kNonzeros];
        SPARSMITH_UNROLL for (int i = 0; i < kNonzeros; ++i) {
          const u32 at = first + 32 * i;
          column[i] = load_cached(columns + segment.first + (at < segment.length ? at : segment.length - 1));
        }
        Value value[kNonzeros];
        SPARSMITH_UNROLL for (int i = 0; i < kNonzeros; ++i) value[i] = load_coherent(line + column[i]);
        SPARSMITH_UNROLL for (int i = 0; i < kNonzeros; ++i) {
          const u32 at = first + 32 * i;
          const float stored[1] = {to_float(value[i])};
          if (at < segment.length) output.store(segment.first + at, 0, 1, stored);
        }
      }
    }
  }
};

}  // namespace sparsmith
