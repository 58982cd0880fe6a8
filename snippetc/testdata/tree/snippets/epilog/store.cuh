// Stores one value.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value>
struct Store {
  SPARSMITH_ROLE(epilog)
  static SPARSMITH_DEVICE void store(Value* to, float value) { *to = from_float<Value>(value); }
};

}  // namespace sparsmith
