// Y = W X with panels of X in shared memory, for any K: a block processes all parts of K one after the other, and the
// sums of its rows stay in their slots meanwhile. So no second kernel has to add sums. A block may keep several panels
// of a long K at once, for which it reads W once. But warps wait for each other at the end of each part.
//
// The grid has a block for each kPanels panels (x); its y strides over parts of the rows.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/kernels/panel.cuh"

namespace sparsmith {

// As PanelKernel, with kStore = kAdded and Products that are correct for every X.
template <class Value, class Stream, class Input, class Products, class Output, panel::RowStore kStore, int kThreads>
struct SweptPanelKernel : PanelKernel<Value, Stream, Input, Products, Products, Output, kStore, kThreads, false> {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 256, 512, 1024)
  static_assert(kStore == panel::RowStore::kAdded && !Products::kNeedsFinite, "sums of earlier parts of K stay");

  using Base = PanelKernel<Value, Stream, Input, Products, Products, Output, kStore, kThreads, false>;
  using Sums = typename Base::Sums;

  static SPARSMITH_DEVICE void run(const panel::Weight& weight, const panel::Source<Value>& source,
                                   const Output& output, int column_parts, int n, u8* shared) {
    launch_dependents();
    float* infinite = reinterpret_cast<float*>(shared + Base::kPanels * panel::stride_of(weight.width));
    float* sums = infinite + 4;
    const int first_token = block_index_x() * Base::kTokens;
    const int valid = source.tokens - first_token;
    const Value* x = source.x + block_index_x() * Base::kPanels * source.panel_stride;
    Input input(reinterpret_cast<u8*>(infinite + 2), valid);
    Stream stream;
    u32 times = 0;  // that panels have been filled
    SPARSMITH_ROLLED for (int part = block_index_y(); part < weight.part_count; part += grid_size_y()) {
      SPARSMITH_ROLLED for (int c = 0; c < column_parts; ++c) {
        const int index = c * weight.part_count + part;
        const int first_column = c * weight.width;
        const int columns = source.columns - first_column;
        // Loads in front of copies that nobody waits for yet would be waited for in front of them.
        if constexpr (Input::kAsynchronous) {
          stream.prefetch(weight, index);
        } else if (c == 0) {
          stream.begin(weight, index);
        }
        if (c == 0) clear(load_cached(weight.parts + index), sums);
        if (times == 0) wait_for_previous();  // the first steps are under way
        input.begin(x + first_column * source.column_stride, source.ldx, source.panel_stride,
                    columns < weight.width ? columns : weight.width, weight.width, valid, shared);
        if constexpr (Input::kAsynchronous) stream.begin(weight, index);
        input.end(times++);
        const Sums to{nullptr, sums, infinite, output, 0, first_token, n};  // of no row by itself
        Base::template accumulate<Products>(weight, stream, Base::template first_task<Products>(weight, stream), shared,
                                            to);
        if (!Input::kAsynchronous && c + 1 < column_parts) stream.begin(weight, index + weight.part_count);
        block_barrier();  // panels have been read, and sums are there
      }
      const panel::Part descriptor = load_cached(weight.parts + part);
      const Sums of_rows{nullptr, sums, infinite, output, descriptor.first_row, first_token, n};
      panel::RowSlots slots = {};
      const u32 offset = Base::offset_of_first_row(weight, descriptor);
      if (offset != Base::kNoOffset) slots = panel::row_slots_at(weight, offset);
      Base::finish(weight, of_rows, descriptor, slots);
      block_barrier();  // the sums have been read
    }
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  // Clears the slots of a part. The code that follows stands behind the barrier that ends filling.
  static SPARSMITH_DEVICE void clear(const panel::Part& part, float* sums) {
    const int quads = static_cast<int>(part.slot_count) * Base::kTokens / 4;
    SPARSMITH_ROLLED for (int i = thread_index(); i < quads; i += kThreads) {
      reinterpret_cast<Vector<float, 4>*>(sums)[i] = {};
    }
  }
};

}  // namespace sparsmith
