// Gathered rows that are not multiplied: their words, and the entries' weights, are put into the sums.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/reduction/gathered_products.cuh"

namespace sparsmith {

template <class Input, int kLanes_, bool kAdds, class Arithmetic>
struct UnmultipliedRows : GatheredProducts<Input, kLanes_, kAdds, Arithmetic> {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4, 8, 16, 32)

  SPARSMITH_DEVICE void multiply(const panel::Step& step, int e, const typename Input::Row& row) {
    constexpr int kWords = 4 / Input::Entry::kCount;  // of an entry
    u32 entry = 0;
    SPARSMITH_UNROLL for (int i = 0; i < kWords; ++i) entry ^= step[(kWords * e + i) % 4];
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
      float& sum = this->sums.values[0][i];
      sum = with_word(sum, i == 0 ? row.words[0] ^ entry : row.words[i]);
    }
  }
};

}  // namespace sparsmith
