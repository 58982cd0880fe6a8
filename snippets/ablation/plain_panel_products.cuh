// Products of a step as PlainProducts has them, without gathering, and without multiplying.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/reduction/plain_products.cuh"

namespace sparsmith {

// Every entry meets the panel's first row, which is in registers.
template <class Value, int kLanes_>
struct UngatheredPlainProducts : PlainProducts<Value, kLanes_> {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)

  using Base = PlainProducts<Value, kLanes_>;
  using Row = typename Base::Row;
  using Entry = typename Base::Entry;

  float x[Row::kTokens];

  SPARSMITH_DEVICE void begin() {
    Base::begin();
    const auto tokens = load_shared<typename Row::Tokens>(shared_address(shared_memory()));
    SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; ++t) x[t] = to_float(tokens[t]);
  }

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress /*rows*/) {
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      this->sums.add(0, Entry::weight(Entry::bits(step, e)), x);
    }
  }
};

// Weights and the rows that they gather are folded into the sums, word by word.
template <class Value, int kLanes_>
struct UnmultipliedPlainProducts : PlainProducts<Value, kLanes_> {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)

  using Entry = typename PlainProducts<Value, kLanes_>::Entry;

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress rows) {
    Vector<u32, 4> words[Entry::kCount];  // all on their way before the first is used
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      words[e] = load_shared<Vector<u32, 4>>(Entry::row(step, e, rows));
    }
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      words[e][0] ^= Entry::bits(step, e);
      SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
        this->sums.values[0][i] = with_word(this->sums.values[0][i], words[e][i]);
      }
    }
  }
};

}  // namespace sparsmith
