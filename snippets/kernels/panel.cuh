// Y = W X with panels of X in shared memory: a block keeps all columns of a few tokens there, and its warps gather from
// them the columns that the entries of their shares name.
//
// A warp follows its share step by step; when a task ends, its sums go to their slots in shared memory. When the part
// is done, one thread per row adds the row's slots in order, so that two runs give equal bits, and runs the epilog. A
// row that is entirely in one task may leave the registers by the epilog when the task ends (RowStore): to
// feature-major Y, where the tokens of a row are neighbours, whatever rows the lanes of a task have; or to shared
// memory, and from there row by row.
//
// The grid has a block for each kPanels panels (x) and part of the columns (z). Its y strides over parts of the rows,
// and is at most their number. With several column parts, each part has its own output. If two blocks of a cluster fill
// panels together (panel_pair.cuh), they are neighbours in x, which then is even, or in y.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_input.cuh"
#include "snippets/prolog/panel_stream.cuh"
#include "snippets/reduction/panel_sums.cuh"

namespace sparsmith {

namespace panel {

// X for the kernel: the first token of panel p is at x + p * panel_stride; the first column of part c is column_stride
// columns further.
template <class Value>
struct Source {
  const Value* x;
  i64 ldx;
  i64 panel_stride;   // elements
  i64 column_stride;  // elements between columns
  int columns;        // K
  int tokens;         // that X holds
};

}  // namespace panel

// Products: correct for every X, or kNeedsFinite. With kNeedsFinite, `infinite` becomes nonzero if they were not
// correct, and Fallback computes the part again. kRoomy: a thread has registers for the look-ups of its block's first
// part, which then arrive before X.
template <class Value, class Stream, class Input, class Products, class Fallback, class Output, panel::RowStore kStore,
          int kThreads, bool kRoomy>
struct PanelKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 256, 512, 1024)

  static constexpr int kPanels = Products::kPanels;
  static constexpr int kRowTokens = panel::Row<Value>::kTokens;
  static constexpr int kTokens = kPanels * kRowTokens;
  using Sums = panel::Sums<Value, Output, kStore, kTokens>;
  static constexpr bool kWholeRows = Sums::kWholeRows;

  // The look-ups of a part: the slots of the warp's first task, and of the row that the thread finishes first.
  struct LookUps {
    typename Products::Slots task;
    panel::RowSlots row;
  };

  // output_stride: elements between the outputs of two column parts. staged_rows: rows for which shared memory has
  // room.
  static SPARSMITH_DEVICE void run(const panel::Weight& weight, const panel::Source<Value>& source, Output output,
                                   i64 output_stride, int staged_rows, int n, u8* shared) {
    launch_dependents();
    float* infinite = reinterpret_cast<float*>(shared + kPanels * panel::stride_of(weight.width));
    Value* rows = reinterpret_cast<Value*>(infinite + 4);
    float* sums = reinterpret_cast<float*>(rows + staged_rows * kTokens);
    if (thread_index() == 0) *infinite = 0.0F;
    const int column_part = block_index_z();
    const int first_column = column_part * weight.width;
    const int first_token = block_index_x() * kTokens;
    const int index = column_part * weight.part_count + block_index_y();
    const int valid = source.tokens - first_token;
    Input input(reinterpret_cast<u8*>(infinite + 2), valid);
    Stream stream;
    // Loads in front of copies that nobody waits for yet would be waited for in front of them.
    if constexpr (Input::kAsynchronous) {
      stream.prefetch(weight, index);
      if (thread_index() == 0) prefetch(weight.parts + index);
    } else {
      stream.begin(weight, index);
    }
    const int columns = source.columns - first_column;
    wait_for_previous();  // the first steps are under way
    input.begin(source.x + block_index_x() * kPanels * source.panel_stride + first_column * source.column_stride,
                source.ldx, source.panel_stride, columns < weight.width ? columns : weight.width, weight.width, valid,
                shared);
    if constexpr (Input::kAsynchronous) {
      stream.begin(weight, index);
      if constexpr (!kRoomy) prefetch_part(weight, stream, index);
    }
    LookUps first = {};
    if constexpr (kRoomy) first = look_up(weight, stream, index);
    input.end();
    if constexpr (Input::kNeighbours) {
      if (valid <= 0) return;  // has helped its neighbour
    }
    output.y += column_part * output_stride;
    parts(weight, stream, first, output, column_part, first_token, n, shared, rows, sums, infinite);
  }

 protected:
  // `first`: the look-ups of the first part, if kRoomy.
  static SPARSMITH_DEVICE void parts(const panel::Weight& weight, Stream& stream, const LookUps& first,
                                     const Output& output, int column_part, int first_token, int n, const u8* shared,
                                     Value* rows, float* sums, float* infinite) {
    for (int part = block_index_y(); part < weight.part_count; part += grid_size_y()) {
      const int index = column_part * weight.part_count + part;
      const panel::Part descriptor = load_cached(weight.parts + index);
      const Sums to{rows, sums, infinite, output, descriptor.first_row, first_token, n};
      LookUps found = first;
      u32 first_offset = kNoOffset;
      if (!kRoomy || part != block_index_y()) {
        found.task = first_task<Products>(weight, stream);
        first_offset = offset_of_first_row(weight, descriptor);
      }
      accumulate<Products>(weight, stream, found.task, shared, to);
      // In flight while the block gathers at its barrier.
      if (first_offset != kNoOffset) found.row = panel::row_slots_at(weight, first_offset);
      block_barrier();
      if constexpr (Products::kNeedsFinite) {
        if (*infinite != 0.0F) {
          block_barrier();
          if (thread_index() == 0) *infinite = 0.0F;
          typename Stream::Unhurried again;
          again.begin(weight, index);
          accumulate<Fallback>(weight, again, first_task<Fallback>(weight, again), shared, to);
          block_barrier();
        }
      }
      const bool last = part + grid_size_y() >= weight.part_count;
      // Without slots for all rows, there are rarely several parts, and registers are short.
      if (!kWholeRows && !last) stream.begin(weight, index + grid_size_y());
      finish(weight, to, load_cached(weight.parts + index), found.row);
      if (kWholeRows && !last) stream.begin(weight, index + grid_size_y());
      if (last) break;
      block_barrier();  // the sums have been read
    }
  }

  // Fetches the look-ups of the first part while X is in flight: its descriptor into L1, the rest into L2.
  static SPARSMITH_DEVICE void prefetch_part(const panel::Weight& weight, const Stream& stream, int index) {
    if (stream.share.step_count != 0) {
      prefetch(weight.task_slots + static_cast<i64>(stream.share.first_task) * Products::kSegments);
    }
    offset_of_first_row(weight, load_cached(weight.parts + index));
  }

  static SPARSMITH_DEVICE LookUps look_up(const panel::Weight& weight, const Stream& stream, int index) {
    LookUps found = {first_task<Products>(weight, stream), {}};
    const u32 offset = offset_of_first_row(weight, load_cached(weight.parts + index));
    if (offset != kNoOffset) found.row = panel::row_slots_at(weight, offset);
    return found;
  }

  template <class AnyProducts, class AnyStream>
  static SPARSMITH_DEVICE typename AnyProducts::Slots first_task(const panel::Weight& weight, const AnyStream& stream) {
    return AnyProducts::slots(weight.task_slots, stream.share.first_task);  // there is one more than there are tasks
  }

  static constexpr u32 kNoOffset = 0xFFFFFFFFU;

  // The place of the slots of the row that this thread finishes first; kNoOffset if there is no such row.
  static SPARSMITH_DEVICE u32 offset_of_first_row(const panel::Weight& weight, const panel::Part& part) {
    if (thread_index() >= static_cast<int>(part.row_count)) return kNoOffset;
    const u32 offset = part.first_offset + thread_index();
    prefetch(weight.row_slots + offset);
    return offset;
  }

  // Follows the warp's share. `slots`: the slots of its first task.
  template <class AnyProducts, class AnyStream>
  static SPARSMITH_DEVICE void accumulate(const panel::Weight& weight, AnyStream& stream,
                                          typename AnyProducts::Slots slots, const u8* panel, const Sums& to) {
    constexpr u32 kDepth = AnyStream::kDepth;
    const u32 count = stream.share.step_count;
    if (count == 0) return;
    const SharedAddress rows = shared_address(panel);
    const u32 stride = panel::stride_of(weight.width);
    u32 task = stream.share.first_task;
    AnyProducts products;
    products.begin();
    const auto end_task = [&]() {
      products.put(slots, to);
      slots = AnyProducts::slots(weight.task_slots, ++task);
    };
    u32 first = 0;
    SPARSMITH_ROLLED for (; first + kDepth <= count; first += kDepth) {
      SPARSMITH_UNROLL for (u32 d = 0; d < kDepth; ++d) {
        const bool ends = panel::ends_task(stream.steps[d]);
        products.multiply(stream.steps[d], rows, stride);
        if (first + d + kDepth < count) stream.refill(d);
        if (ends) end_task();
      }
      stream.advance();
    }
    SPARSMITH_UNROLL for (u32 d = 0; d + 1 < kDepth; ++d) {
      if (first + d < count) {
        const bool ends = panel::ends_task(stream.steps[d]);
        products.multiply(stream.steps[d], rows, stride);
        if (ends) end_task();
      }
    }
  }

  // `slots`: the slots of this thread's first row.
  static SPARSMITH_DEVICE void finish(const panel::Weight& weight, const Sums& to, const panel::Part& part,
                                      panel::RowSlots slots) {
    const int rows = static_cast<int>(part.row_count);
    panel::RowSlots next = slots;
    for (int row = thread_index(); row < rows; row += kThreads) {
      slots = next;
      if (row + kThreads < rows) next = panel::row_slots_at(weight, part.first_offset + row + kThreads);
      if constexpr (kWholeRows) {
        if ((slots.begin & panel::kWholeRow) != 0) {
          if constexpr (kStore == panel::RowStore::kStaged) {
            SPARSMITH_UNROLL for (int first = 0; first < kTokens; first += kRowTokens) {
              const auto values = *reinterpret_cast<const Vector<Value, kRowTokens>*>(to.staged(row, first));
              to.output.store_finished(part.first_row + row, to.first_token + first, to.n, values);
            }
          }
          continue;  // has been stored
        }
        slots.end &= ~panel::kWholeRow;  // which says so of the next row
      }
      SPARSMITH_UNROLL for (int first = 0; first < kTokens; first += kRowTokens) {
        float totals[kRowTokens] = {};
        SPARSMITH_ROLLED for (u32 slot = slots.begin; slot < slots.end; ++slot) {
          SPARSMITH_UNROLL for (int t = 0; t < kRowTokens; t += 4) {
            const auto quad = *reinterpret_cast<const Vector<float, 4>*>(to.slot(slot, first + t));
            SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) totals[t + i] += quad[i];
          }
        }
        to.output.store(part.first_row + row, to.first_token + first, to.n, totals);
      }
    }
  }
};

}  // namespace sparsmith
