// What a lane has loaded of a tile in the slots format, kept word by word.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/prolog/slot_stream.cuh"

namespace sparsmith {

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

template <int kVectorWidth>
SPARSMITH_DEVICE void keep(const Columns16<kVectorWidth>& columns, KeptWords& kept) {
  keep(columns.words, kept);
}
template <int kVectorWidth>
SPARSMITH_DEVICE void keep(const Columns32<kVectorWidth>& columns, KeptWords& kept) {
  keep(columns.words, kept);
}
template <int kVectorWidth, bool kDeltas>
SPARSMITH_DEVICE void keep(const Columns8<kVectorWidth, kDeltas>& columns, KeptWords& kept) {
  keep(columns.words, kept);
  kept.keep(columns.base);
}
template <int kVectorWidth>
SPARSMITH_DEVICE void keep(const Columns4<kVectorWidth>& columns, KeptWords& kept) {
  keep(columns.words, kept);
  kept.keep(columns.base);
}
SPARSMITH_DEVICE void keep(const ThreeWords& columns, KeptWords& kept) {
  keep(columns.words, kept);
  keep(columns.last_word, kept);
  kept.keep(columns.base);
}

}  // namespace slots

}  // namespace sparsmith
