// How the stored values of a weight become numbers: the one step between a packing's value arrays and a product.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Values of the weight's own type.
template <class Stored>
struct PlainCoding {
  SPARSMITH_ROLE(prolog)
  static constexpr bool kScales = false;

  SPARSMITH_DEVICE float decode(Stored value, u32 /*row*/, u32 /*column*/) const { return to_float(value); }
};

// 8-bit codes, and of each kGroup columns of a row a power of two (formats/coding.h, "mxint8"). Decoding is exact.
struct MxInt8 {
  SPARSMITH_ROLE(prolog)
  static constexpr bool kScales = true;
  static constexpr u32 kGroup = 32;

  const u8* scales;  // exponents, biased by 127 + 6
  u32 scales_of_row;

  SPARSMITH_DEVICE float decode(i8 code, u32 row, u32 column) const {
    const u32 exponent = load_cached_byte(scales + static_cast<i64>(row) * scales_of_row + column / kGroup);
    return static_cast<float>(code) * float_from_bits((exponent - 6) << 23);
  }
};

}  // namespace sparsmith
