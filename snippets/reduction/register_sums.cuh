// The first link of the reduction chain: a thread accumulates its products in registers.
//
// One thread owns kRows rows times kTokens tokens of fp32 sums. The other links (shuffle, shared, atomic or two-pass)
// add up the sums of the threads of a row.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kRows_, int kTokens_>
struct RegisterSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kRows_, 1, 2, 4, 8)
  SPARSMITH_TUNE(kTokens_, 1, 2, 4, 8)

  static constexpr int kRows = kRows_;
  static constexpr int kTokens = kTokens_;

  float values[kRows][kTokens];

  SPARSMITH_DEVICE void clear() {
    SPARSMITH_UNROLL for (int r = 0; r < kRows; ++r) {
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) values[r][t] = 0.0F;
    }
  }

  // Adds weight * x[t] to each token's sum of row r.
  SPARSMITH_DEVICE void add(int r, float weight, const float (&x)[kTokens]) {
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) values[r][t] = multiply_add(weight, x[t], values[r][t]);
  }
};

}  // namespace sparsmith
