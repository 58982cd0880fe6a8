// Slots whose nonzeros all meet the first element of x: columns are loaded, and neither expanded nor gathered by.
#pragma once

#include "snippets/ablation/kept_slots.cuh"
#include "snippets/contract.cuh"

namespace sparsmith {

template <class Stream>
struct UngatheredSlots : Stream {
  SPARSMITH_ROLE(prolog)

  struct Tile : Stream::Tile {
    template <class Input, int kTokens, int kChains>
    SPARSMITH_DEVICE void multiply(const Input& input, float (&sums)[kTokens][kChains], bool more, const u8* next,
                                   int lane) {
      float x[kTokens];
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) x[t] = input.at(0, t);
      SPARSMITH_UNROLL for (int e = 0; e < Stream::kVectorWidth; ++e) {
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
          sums[t][e % kChains] = multiply_add(this->values[e], x[t], sums[t][e % kChains]);
        }
      }
      KeptWords kept;
      slots::keep(this->columns, kept);
      sums[0][0] = with_word(sums[0][0], kept.folded);
      if (more) this->load(next, lane);
    }
  };
};

}  // namespace sparsmith
