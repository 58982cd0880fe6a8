// A place in a ring of stages in shared memory, which warps fill and empty in the same order.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kStages>
struct StageCursor {
  SPARSMITH_ROLE(prolog)

  int number = 0;
  u32 parity = 0;  // of the stage's present phase, for await()

  SPARSMITH_DEVICE void advance(int by = 1) {
    number += by;
    if (number < kStages) return;
    number -= kStages;
    parity ^= 1U;
  }
};

}  // namespace sparsmith
