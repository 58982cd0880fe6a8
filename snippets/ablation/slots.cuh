// The slots family without gathers, and without products.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/prolog/slot_stream.cuh"

namespace sparsmith {

// What a lane has loaded of a tile, kept word by word.
namespace slots {

template <int kCount>
SPARSMITH_DEVICE void keep(const LaneVector<u32, kCount>& words, KeptWords& kept) {
  SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) kept.keep(words[i]);
}

template <class Value, int kCount>
SPARSMITH_DEVICE void keep(const LaneValues<Value, kCount>& values, KeptWords& kept) {
  keep(values.words, kept);
}
template <int kCount>
SPARSMITH_DEVICE void keep(const LaneValues<float, kCount>& values, KeptWords& kept) {
  SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) kept.keep(bits_of_float(values[i]));
}

template <int kWords>
SPARSMITH_DEVICE void keep(const PlainColumns<kWords>& columns, KeptWords& kept) {
  keep(columns.words, kept);
}
template <int kWords>
SPARSMITH_DEVICE void keep(const BasedColumns<kWords>& columns, KeptWords& kept) {
  keep(columns.words, kept);
  kept.keep(columns.base);
}
template <class Columns, int kVectorWidth, int kLeastStep>
SPARSMITH_DEVICE void keep(const ThreeWords<Columns, kVectorWidth, kLeastStep>& columns, KeptWords& kept) {
  keep(columns.words, kept);
  keep(columns.last_word, kept);
  kept.keep(columns.base);
}

}  // namespace slots

// Slots whose nonzeros all meet the first element of x: columns are loaded, and neither expanded nor gathered by.
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

// Slots whose nonzeros are not multiplied: what they gather is added up, and values are folded into a sum as they were
// loaded.
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
