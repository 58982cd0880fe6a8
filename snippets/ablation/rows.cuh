// The rows family without gathers, and without products.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/reduction/register_sums.cuh"

namespace sparsmith {

// X of which every nonzero meets the first column: where it lies is still computed from the nonzero's own.
template <class Input>
struct UngatheredInput : Input {
  SPARSMITH_ROLE(prolog)

  using Base = Input;
  using Base::Base;

  template <int kTokens>
  SPARSMITH_DEVICE void load(u32 column, float (&out)[kTokens]) const {
    const u32 none = static_cast<u32>(this->ldx >> 63);  // 0, which the compiler does not know
    Base::load(column & none, out);
  }
};

// Sums of what would be multiplied: X is added up, and weights are put into a sum as they are.
template <class Sums>
struct UnmultipliedSums : Sums {
  SPARSMITH_ROLE(reduction)

  SPARSMITH_DEVICE void add(int r, float weight, const float (&x)[Sums::kTokens]) {
    SPARSMITH_UNROLL for (int t = 0; t < Sums::kTokens; ++t) this->values[r][t] += x[t];
    this->values[r][0] = with_word(this->values[r][0], bits_of_float(weight));
  }
};

}  // namespace sparsmith
