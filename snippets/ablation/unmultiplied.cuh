// Elements whose products tensor cores do not form. A kernel takes an Unmultiplied<half> as it takes a half.
//
// Operands are folded into the sums all the same, by a few instructions, so that the compiler cannot leave out what
// brings them there.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value>
struct Unmultiplied : Value {};

template <class Value>
struct FromFloat<Unmultiplied<Value>> {
  static SPARSMITH_DEVICE Unmultiplied<Value> convert(float value) { return {FromFloat<Value>::convert(value)}; }
};

template <>
SPARSMITH_DEVICE u32 add_zero_times<Unmultiplied<half>>(u32 pair, u32 sum) {
  return add_zero_times<half>(pair, sum);
}
template <>
SPARSMITH_DEVICE u32 add_zero_times<Unmultiplied<bfloat16>>(u32 pair, u32 sum) {
  return add_zero_times<bfloat16>(pair, sum);
}

template <class Value>
struct TensorMultiply<Unmultiplied<Value>> {
  static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    const u32 of_a = mantissa(a[0] ^ a[1] ^ a[2] ^ a[3]);  // the same for all that a is multiplied by
    d[0] = with_word(d[0], (b0 ^ b1) & of_a);
  }
};

template <class Value>
struct SparseTensorMultiply<Unmultiplied<Value>> {
  template <int kPair>
  static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[4], u32 metadata) {
    d[0] = with_word(d[0], (b[0] ^ b[1] ^ b[2] ^ b[3]) & mantissa(a[0] ^ a[1] ^ a[2] ^ a[3] ^ metadata));
  }
};

// The other operand is read by the multiplication itself: without it nobody does.
template <class Value, int kColumns>
struct WarpgroupMultiply<Unmultiplied<Value>, kColumns> {
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], const u32 (&a)[4], SwizzledRows /*b*/) {
    d[0] = with_word(d[0], a[0] ^ a[1] ^ a[2] ^ a[3]);
  }
};

}  // namespace sparsmith
