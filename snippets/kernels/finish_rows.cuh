// The second pass for rows that were cut into segments: adds a row's partial sums, in order, and runs the epilog.
//
// One thread owns one (row, token); neighbouring threads own neighbouring tokens.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Output, int kThreads>
struct FinishRowsKernel {
  SPARSMITH_ROLE(kernel)

  // slot_offsets: [split_row_count + 1]; partials: [slots][n].
  static SPARSMITH_DEVICE void run(const u32* split_rows, const u32* slot_offsets, const float* partials,
                                   const Output& output, int split_row_count, int n) {
    launch_dependents();
    wait_for_previous();
    const i64 count = static_cast<i64>(split_row_count) * n;
    const i64 stride = static_cast<i64>(grid_size_x()) * kThreads;
    for (i64 i = static_cast<i64>(block_index_x()) * kThreads + thread_index(); i < count; i += stride) {
      const int row = static_cast<int>(i / n);
      const int token = static_cast<int>(i % n);
      float sums[1] = {0.0F};
      for (u32 slot = slot_offsets[row]; slot < slot_offsets[row + 1]; ++slot) {
        sums[0] += partials[static_cast<i64>(slot) * n + token];
      }
      output.store(split_rows[row], token, n, sums);
    }
  }
};

}  // namespace sparsmith
