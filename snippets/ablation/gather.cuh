// The gather family without gathers, and without products.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/prolog/gathered_rows.cuh"
#include "snippets/reduction/gathered_products.cuh"

namespace sparsmith {

// Rows of X that are not gathered: every entry's is the first one, which is in L1.
template <class Input>
struct UngatheredRows : Input {
  SPARSMITH_ROLE(prolog)

  using Entry = typename Input::Entry;

  SPARSMITH_DEVICE void load(const panel::Step& step, typename Input::Rows& rows) const {
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      const auto* from = reinterpret_cast<const typename Input::Words*>(this->first);
      rows.of[e].words = load_coherent_if(Entry::column(step, e) < this->columns, from);
    }
  }
};

// Gathered rows that are not multiplied: their words, and the entries' weights, are put into the sums.
template <class Input, int kLanes_, bool kAdds, class Arithmetic>
struct UnmultipliedRows : GatheredProducts<Input, kLanes_, kAdds, Arithmetic> {
  SPARSMITH_ROLE(reduction)

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
