// The exact outputs for the check of candidates of sddmm: S = sum dy x and A = sum |dy x| over the tokens in fp64, one
// thread per nonzero.
//
// Written to be evidently right, not fast. Neighbouring threads compute neighbouring nonzeros of a row, so that they
// read the same element of dY, and elements of X that lie close together.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value>
struct ReferenceSddmm {
  SPARSMITH_ROLE(kernel)

  // The element (feature k, token t) of X is x[k * x_feature + t * x_token], and so for dY.
  static SPARSMITH_DEVICE void run(const i64* row_offsets, const u32* columns, const Value* x, const Value* dy,
                                   double* sums, double* magnitudes, i64 rows, i64 tokens, i64 x_feature, i64 x_token,
                                   i64 dy_feature, i64 dy_token, int threads) {
    launch_dependents();
    wait_for_previous();
    const i64 output = static_cast<i64>(block_index_x()) * threads + thread_index();
    if (output >= row_offsets[rows]) return;
    i64 row = 0;  // the last one that begins at or before the nonzero
    for (i64 after = rows; after - row > 1;) {
      const i64 middle = row + (after - row) / 2;
      if (row_offsets[middle] <= output)
        row = middle;
      else
        after = middle;
    }
    const Value* const x_line = x + columns[output] * x_feature;
    const Value* const dy_line = dy + row * dy_feature;
    double sum = 0;
    double magnitude = 0;
    for (i64 token = 0; token < tokens; ++token) {
      const double a = static_cast<double>(to_float(dy_line[token * dy_token]));
      const double b = static_cast<double>(to_float(x_line[token * x_token]));
      sum = multiply_add(a, b, sum);
      magnitude = multiply_add(absolute(a), absolute(b), magnitude);
    }
    sums[output] = sum;
    magnitudes[output] = magnitude;
  }
};

}  // namespace sparsmith
