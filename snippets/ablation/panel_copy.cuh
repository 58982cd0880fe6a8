// The steps of a panel weight, to the registers of the warps of PanelKernel and of SweptPanelKernel, as many ahead, and
// nothing else.
#pragma once

#include "snippets/ablation/copied_steps.cuh"
#include "snippets/contract.cuh"
#include "snippets/kernels/panel.cuh"
#include "snippets/kernels/swept_panel.cuh"

namespace sparsmith {

// A block streams the steps of its parts of the rows.
template <class Value, class Stream, class Input, class Products, class Fallback, class Output, panel::RowStore kStore,
          int kThreads, bool kRoomy>
struct PanelCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 256, 512, 1024)

  static SPARSMITH_DEVICE void run(const panel::Weight& weight, const panel::Source<Value>& source,
                                   const Output& /*output*/, i64 /*output_stride*/, int /*staged_rows*/, int /*n*/,
                                   u8* shared) {
    launch_dependents();
    const int first_token = block_index_x() * Products::kPanels * panel::Row<Value>::kTokens;
    // A neighbour without tokens has only helped to fill a panel.
    const bool streams = !Input::kNeighbours || first_token < source.tokens;
    Stream stream;
    KeptWords kept;
    for (int part = block_index_y(); streams && part < weight.part_count; part += grid_size_y()) {
      stream.begin(weight, block_index_z() * weight.part_count + part);
      wait_for_previous();  // the first steps are under way
      panel::copy_steps(stream, kept);
    }
    wait_for_previous();  // where there was nothing to do, too
    kept.end(shared_offset(shared));
  }
};

// The same of all parts of K, one behind the other.
template <class Value, class Stream, class Input, class Products, class Output, panel::RowStore kStore, int kThreads>
struct SweptPanelCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 256, 512, 1024)

  static SPARSMITH_DEVICE void run(const panel::Weight& weight, const panel::Source<Value>& /*source*/,
                                   const Output& /*output*/, int column_parts, int /*n*/, u8* shared) {
    launch_dependents();
    Stream stream;
    KeptWords kept;
    SPARSMITH_ROLLED for (int part = block_index_y(); part < weight.part_count; part += grid_size_y()) {
      SPARSMITH_ROLLED for (int c = 0; c < column_parts; ++c) {
        stream.begin(weight, c * weight.part_count + part);
        wait_for_previous();  // the first steps are under way
        panel::copy_steps(stream, kept);
      }
    }
    wait_for_previous();  // where there was nothing to do, too
    kept.end(shared_offset(shared));
  }
};

}  // namespace sparsmith
