// A weight in csr: the stream of its nonzeros, and the decoding of their values.
#pragma once

#include "formats/csr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// The weight's nonzeros, streamed from global memory.
//
// One thread loads kVectorWidth neighbouring columns and values of a segment at once, with one access each. The lanes
// of a row's thread group load neighbouring vectors. Nothing is kept: each nonzero is read once.
template <class Stored_, class Index_, int kVectorWidth_>
struct CsrStream {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 1, 2, 4, 8)
  static_assert(kVectorWidth_ * sizeof(Stored_) <= 32, "values of one vector are at most two 16-byte loads");

  using Stored = Stored_;
  using Index = Index_;
  static constexpr int kVectorWidth = kVectorWidth_;

  struct Fragment {
    Vector<Index, kVectorWidth> columns;
    Vector<Stored, kVectorWidth> values;
  };

  const Index* columns;
  const Stored* values;

  // REQUIRES: `at` is a multiple of kVectorWidth, and the packing is aligned to it. The last vector of a segment may
  // hold padding behind the segment's end.
  SPARSMITH_DEVICE Fragment load(u32 at) const {
    return {load_streaming(reinterpret_cast<const Vector<Index, kVectorWidth>*>(columns + at)),
            load_streaming(reinterpret_cast<const Vector<Stored, kVectorWidth>*>(values + at))};
  }
};

// ---- how stored values become numbers: the one step between a packing's value arrays and a product ----

// Values of the weight's own type.
template <class Stored>
struct PlainCoding {
  SPARSMITH_ROLE(prolog)
  static constexpr bool kScales = false;

  SPARSMITH_DEVICE float decode(Stored value, u32 /*row*/, u32 /*column*/) const { return to_float(value); }
};

// 8-bit codes, and a power of two for each kGroup columns of a row (formats/coding.h, "mxint8"). Decoding is exact.
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
