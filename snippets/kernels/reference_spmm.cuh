// The exact outputs for the check of candidates: S = sum w x and A = sum |w x| in fp64, one thread per output.
//
// Written to be evidently right, not fast. Neighbouring threads compute neighbouring tokens of a row, so that they read
// the same nonzeros, and neighbouring elements of X. Only nonzeros are multiplied: Inf and NaN in X reach only the rows
// that touch them.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value>
struct ReferenceSpmm {
  SPARSMITH_ROLE(kernel)

  // The element (column k, token t) of X is x[k * column_stride + t]; sums and magnitudes are [M][N].
  static SPARSMITH_DEVICE void run(const i64* row_offsets, const u32* columns, const float* values, const Value* x,
                                   double* sums, double* magnitudes, i64 rows, i64 tokens, i64 column_stride,
                                   int threads) {
    launch_dependents();
    wait_for_previous();
    const i64 output = static_cast<i64>(block_index_x()) * threads + thread_index();
    if (output >= rows * tokens) return;
    const i64 row = output / tokens;
    const i64 token = output % tokens;
    double sum = 0;
    double magnitude = 0;
    for (i64 i = row_offsets[row]; i < row_offsets[row + 1]; ++i) {
      const double w = static_cast<double>(values[i]);
      if (w == 0) continue;  // rounded away in the operator's type
      const double factor = static_cast<double>(to_float(x[columns[i] * column_stride + token]));
      sum = multiply_add(w, factor, sum);
      magnitude = multiply_add(absolute(w), absolute(factor), magnitude);
    }
    sums[output] = sum;
    magnitudes[output] = magnitude;
  }
};

}  // namespace sparsmith
