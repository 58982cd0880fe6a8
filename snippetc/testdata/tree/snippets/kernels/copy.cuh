// y = x.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/store.cuh"
#include "snippets/prolog/window.cuh"

namespace sparsmith {

template <class Input, class Output, int kThreads>
struct CopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 64, 128)

  static SPARSMITH_DEVICE void run(const float* x, float* y) {
    const auto fragment = Input::load(x + thread_index());
    Output::store(y + thread_index(), fragment.values[0]);
  }
};

}  // namespace sparsmith
