// Products of a step as TensorProducts has them, in which every entry meets the panel's first row, which is in
// registers.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/reduction/tensor_products.cuh"

namespace sparsmith {

template <class Value, int kLanes_, int kPanels_>
struct UngatheredTensorProducts : TensorProducts<Value, kLanes_, kPanels_> {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)
  SPARSMITH_TUNE(kPanels_, 1, 2, 4)

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
