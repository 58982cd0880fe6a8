// A window of a row, loaded at once:
// one thread, one vector.
//
// The second paragraph is not part of the brief.
#pragma once

#include "formats/window_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class T>
using Plain = T;

template <class Value, int kWidth_ = 4, template <class> class Wrapper = Plain>
struct Window {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kWidth_, 1, 2, 4, 8)
  static_assert(kWidth_ * sizeof(Value) <= window::kAlignment,
                "a window is at most \"one\" load");

  // Two windows, double-buffered.
  static constexpr int kSharedBytes = 2 * kWidth_ * sizeof(Value);

  struct Fragment {
    Vector<Value, kWidth_> values;
  };

  static SPARSMITH_DEVICE Fragment load(const Value* from) {
    return {load_streaming(reinterpret_cast<const Vector<Value, kWidth_>*>(from))};
  }
};

}  // namespace sparsmith
