// The second pass for weights whose columns were cut into parts: adds the sums of a row from each part, in order, and
// runs the epilog.
//
// Partial sums lie in fp32 as [part][...] in the layout of Y. One thread owns one (row, token); neighbouring threads
// own neighbouring elements of Y.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

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
