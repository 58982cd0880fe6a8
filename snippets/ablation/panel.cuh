// The panel family without gathers, and without products.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/reduction/plain_products.cuh"
#include "snippets/reduction/tensor_products.cuh"

namespace sparsmith {

// Every entry meets the panel's first row, which is in registers.
template <class Value, int kLanes_, int kPanels_, class Arithmetic>
struct UngatheredPlainProducts : PlainProducts<Value, kLanes_, kPanels_, Arithmetic> {
  SPARSMITH_ROLE(reduction)

  using Base = PlainProducts<Value, kLanes_, kPanels_, Arithmetic>;
  using Entry = typename Base::Entry;

  panel::RowWords tokens;

  SPARSMITH_DEVICE void begin() {
    Base::begin();
    tokens = load_shared<panel::RowWords>(shared_address(shared_memory()));
  }

  SPARSMITH_DEVICE void multiply(const typename Entry::Step& step, SharedAddress /*rows*/, u32 /*stride*/) {
    Arithmetic arithmetic[kPanels_];
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      SPARSMITH_UNROLL for (int p = 0; p < kPanels_; ++p) {
        arithmetic[p].template add<Entry>(step, e, tokens, this->sums, p);
      }
    }
  }
};

// Weights and the rows that they gather are folded into the sums, word by word.
template <class Value, int kLanes_, int kPanels_, class Arithmetic>
struct UnmultipliedPlainProducts : PlainProducts<Value, kLanes_, kPanels_, Arithmetic> {
  SPARSMITH_ROLE(reduction)

  using Entry = typename PlainProducts<Value, kLanes_, kPanels_, Arithmetic>::Entry;

  SPARSMITH_DEVICE void multiply(const typename Entry::Step& step, SharedAddress rows, u32 stride) {
    constexpr int kTogether = panel::entries_together(Entry::kCount, kPanels_);
    SPARSMITH_UNROLL for (int first = 0; first < Entry::kCount; first += kTogether) {
      Vector<u32, 4> words[kTogether][kPanels_];  // all on their way before the first is used
      SPARSMITH_UNROLL for (int e = 0; e < kTogether; ++e) {
        const SharedAddress row = Entry::row(step, first + e, rows);
        SPARSMITH_UNROLL for (int p = 0; p < kPanels_; ++p) {
          words[e][p] = load_shared<Vector<u32, 4>>(advanced(row, p * stride));
        }
      }
      SPARSMITH_UNROLL for (int e = 0; e < kTogether; ++e) {
        SPARSMITH_UNROLL for (int p = 0; p < kPanels_; ++p) {
          auto& values = this->sums.values[p];
          words[e][p][0] ^= Entry::bits(step, first + e);
          SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) values[i] = with_word(values[i], words[e][p][i]);
        }
      }
    }
  }
};

// The same of tensor products.
template <class Value, int kLanes_, int kPanels_>
struct UngatheredTensorProducts : TensorProducts<Value, kLanes_, kPanels_> {
  SPARSMITH_ROLE(reduction)

  u32 row[4];

  SPARSMITH_DEVICE void begin() {
    TensorProducts<Value, kLanes_, kPanels_>::begin();
    const auto words = load_shared<Vector<u32, 4>>(shared_address(shared_memory()));
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) row[i] = words[i];
  }

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress /*panel*/, u32 /*stride*/) {
    SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
      SPARSMITH_UNROLL for (int p = 0; p < kPanels_; ++p) this->add(step[e], p, row);
    }
  }
};

}  // namespace sparsmith
