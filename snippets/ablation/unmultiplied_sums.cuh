// Sums of what would be multiplied: X is added up, and weights are put into a sum as they are.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/reduction/register_sums.cuh"

namespace sparsmith {

template <class Sums>
struct UnmultipliedSums : Sums {
  SPARSMITH_ROLE(reduction)

  SPARSMITH_DEVICE void add(int r, float weight, const float (&x)[Sums::kTokens]) {
    SPARSMITH_UNROLL for (int t = 0; t < Sums::kTokens; ++t) this->values[r][t] += x[t];
    this->values[r][0] = with_word(this->values[r][0], bits_of_float(weight));
  }
};

}  // namespace sparsmith
