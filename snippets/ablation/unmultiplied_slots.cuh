// Slots whose nonzeros are not multiplied: what they gather is added up, and values are folded into a sum as they were
// loaded.
#pragma once

#include "snippets/ablation/kept_slots.cuh"
#include "snippets/contract.cuh"

namespace sparsmith {

template <class Stream>
struct UnmultipliedSlots : Stream {
  SPARSMITH_ROLE(prolog)

  struct Tile : Stream::Tile {
    template <class Input, int kTokens, int kChains>
    SPARSMITH_DEVICE void multiply(const Input& input, float (&sums)[kTokens][kChains], bool more, const u8* next,
                                   int lane) {
      u32 offsets[Stream::kVectorWidth];
      this->columns.template expand<Input::kScale>(offsets);
      SPARSMITH_UNROLL for (int e = 0; e < Stream::kVectorWidth; ++e) {
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) sums[t][e % kChains] += input.at(offsets[e], t);
      }
      KeptWords kept;
      slots::keep(this->values, kept);
      sums[0][0] = with_word(sums[0][0], kept.folded);
      if (more) this->load(next, lane);
    }
  };
};

}  // namespace sparsmith
