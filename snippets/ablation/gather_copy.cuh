// The steps of a weight in panel tasks, to the registers of the warps of GatherKernel, as many ahead, and nothing else.
#pragma once

#include "snippets/ablation/copied_steps.cuh"
#include "snippets/contract.cuh"
#include "snippets/kernels/gather.cuh"

namespace sparsmith {

template <class Stream, class Input, class Products, class Output, bool kTokenMajor, int kAhead, int kThreads>
struct GatherCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 256, 512, 1024)

  static SPARSMITH_DEVICE void run(const panel::Weight& weight, const typename Input::Value* /*x*/, u32 /*row_bytes*/,
                                   int /*x_tokens*/, const Output& /*output*/, int n, u8* shared) {
    launch_dependents();
    KeptWords kept;
    for (int first_token = block_index_y() * Input::kTile; first_token < n;
         first_token += grid_size_y() * Input::kTile) {
      for (int index = block_index_x(); index < weight.part_count; index += grid_size_x()) {
        Stream stream;
        stream.begin(weight, index);
        wait_for_previous();  // the first steps are under way
        panel::copy_steps(stream, kept);
      }
    }
    wait_for_previous();  // where there was nothing to do, too
    kept.end(shared_offset(shared));
  }
};

}  // namespace sparsmith
