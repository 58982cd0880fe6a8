// X of which every nonzero meets the first column: where it lies is still computed from the nonzero's own.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

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

}  // namespace sparsmith
