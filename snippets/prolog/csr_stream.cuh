// The weight's nonzeros, streamed from global memory.
//
// One thread loads kVectorWidth neighbouring columns and values of a segment at once, as one access each; the
// lanes of a row's thread group load neighbouring vectors. Nothing is kept: each nonzero is read once.
#pragma once

#include "formats/csr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

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

  // `at` is a multiple of kVectorWidth, and the packing is aligned to it; the last vector of a segment may hold
  // padding behind the segment's end.
  SPARSMITH_DEVICE Fragment load(u32 at) const {
    return {load_streaming(reinterpret_cast<const Vector<Index, kVectorWidth>*>(columns + at)),
            load_streaming(reinterpret_cast<const Vector<Stored, kVectorWidth>*>(values + at))};
  }
};

}  // namespace sparsmith
