// Operands that a launch in front has laid out (formats/operand_layout.h has how), and the X that they were made of,
// where single elements are looked up.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, bool kTokenMajor>
struct LaidOutOperands {
  SPARSMITH_ROLE(prolog)

  const u8* operands;
  int strips;  // of a token block
  const Value* x;
  i64 ldx;
  int cols;
  int n;

  // One element; outside of X it is 0.
  SPARSMITH_DEVICE float element(int token, int column) const {
    if (token >= n || column >= cols) return 0.0F;
    return to_float(load_coherent(kTokenMajor ? x + token * ldx + column : x + column * ldx + token));
  }
};

}  // namespace sparsmith
