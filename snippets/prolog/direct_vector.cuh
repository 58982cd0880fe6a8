// One token of X, gathered from where it lies in global memory, through L1: for a K that shared memory does not hold.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value>
struct DirectVector {
  SPARSMITH_ROLE(prolog)

  static constexpr int kScale = 1;  // offsets are columns

  static SPARSMITH_DEVICE int shared_bytes(int /*cols*/) { return 0; }

  const Value* x;
  i64 column_stride;
  i64 token_stride;
  int cols;
  const Value* from = nullptr;  // this token

  SPARSMITH_DEVICE DirectVector(const Value* x_, i64 column_stride_, i64 token_stride_, int cols_, u8* /*shared*/)
      : x(x_), column_stride(column_stride_), token_stride(token_stride_), cols(cols_) {}

  SPARSMITH_DEVICE void begin(int token) { from = x + token * token_stride; }
  SPARSMITH_DEVICE void wait() const {}

  // The column K is padding: 0.
  SPARSMITH_DEVICE float at(u32 column) const {
    return column < static_cast<u32>(cols) ? to_float(load_coherent(from + column * column_stride)) : 0.0F;
  }
};

}  // namespace sparsmith
