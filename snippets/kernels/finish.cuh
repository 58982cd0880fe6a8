// Second passes: they add up partial sums, in order, and run the epilog. One thread owns one (row, token).
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// For rows that were cut into segments: neighbouring threads own neighbouring tokens.
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

// For weights whose columns were cut into parts. Partial sums lie in fp32 as [part][...] in the layout of Y;
// neighbouring threads own neighbouring elements of Y.
template <class Output, bool kTokenMajor, int kThreads>
struct FinishPartsKernel {
  SPARSMITH_ROLE(kernel)

  static SPARSMITH_DEVICE void run(const float* partials, const Output& output, int part_count, int rows, int n) {
    launch_dependents();
    wait_for_previous();
    const i64 count = static_cast<i64>(rows) * n;
    const i64 stride = static_cast<i64>(grid_size_x()) * kThreads;
    for (i64 i = static_cast<i64>(block_index_x()) * kThreads + thread_index(); i < count; i += stride) {
      float sums[1] = {0.0F};
      for (int part = 0; part < part_count; ++part) sums[0] += partials[part * count + i];
      const int minor = kTokenMajor ? rows : n;
      const int row = static_cast<int>(kTokenMajor ? i % minor : i / minor);
      const int token = static_cast<int>(kTokenMajor ? i / minor : i % minor);
      output.store(static_cast<u32>(row), token, n, sums);
    }
  }
};

}  // namespace sparsmith
