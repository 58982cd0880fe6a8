// The steps of a warp's share in the panel format, loaded as far ahead as ever and kept.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/prolog/panel_stream.cuh"

namespace sparsmith {

namespace panel {

SPARSMITH_DEVICE void keep(const Step& step, KeptWords& kept) {
  SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) kept.keep(step[i]);
}
SPARSMITH_DEVICE void keep(const ApartStep& step, KeptWords& kept) {
  SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) kept.keep(step.values[i]);
  SPARSMITH_UNROLL for (int i = 0; i < 2; ++i) kept.keep(step.rows[i]);
}

// `stream` has begun.
template <class Stream>
SPARSMITH_DEVICE void copy_steps(Stream& stream, KeptWords& kept) {
  constexpr u32 kDepth = Stream::kDepth;
  const u32 count = stream.share.step_count;
  SPARSMITH_ROLLED for (u32 first = 0; first < count; first += kDepth) {
    SPARSMITH_UNROLL for (u32 d = 0; d < kDepth; ++d) {
      if (first + d < count) {
        keep(stream.steps[d], kept);
        if (first + d + kDepth < count) stream.refill(d);
      }
    }
    stream.advance();
  }
}

}  // namespace panel

}  // namespace sparsmith
