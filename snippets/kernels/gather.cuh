// Y = W X with rows of X gathered from global memory: a block works on the tasks of a part of the rows for a tile of
// tokens. The row of X of each entry comes through L1 and L2 when it is needed. Nothing is staged, so K has no limit.
//
// A warp follows its share step by step; when a task ends, its sums go to their slots in shared memory. When the part
// is done, one thread per row and lane of a team adds the row's slots in order, so that two runs give equal bits, and
// runs the epilog.
//
// The grid's x strides over parts of the rows, its y over token tiles: blocks that run side by side share a tile of X.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_stream.cuh"

namespace sparsmith {

// kAhead: 1 if the rows of a step are in flight while the rows of the previous step are multiplied; otherwise 0.
template <class Stream, class Input, class Products, class Output, bool kTokenMajor, int kAhead, int kThreads>
struct GatherKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kAhead, 0, 1)
  SPARSMITH_TUNE(kThreads, 256, 512, 1024)
  static_assert(kAhead == 0 || Stream::kDepth >= 4, "a step's columns are there before its rows are asked for");

  using Value = typename Input::Value;
  static constexpr int kTokens = Input::kTokens;
  static constexpr int kTeamLanes = Input::kTeamLanes;

  // x_tokens: tokens that the rows of X hold, at least n.
  static SPARSMITH_DEVICE void run(const panel::Weight& weight, const Value* x, u32 row_bytes, int x_tokens,
                                   const Output& output, int n, u8* shared) {
    launch_dependents();
    float* sums = reinterpret_cast<float*>(shared);
    for (int first_token = block_index_y() * Input::kTile; first_token < n;
         first_token += grid_size_y() * Input::kTile) {
      for (int index = block_index_x(); index < weight.part_count; index += grid_size_x()) {
        Stream stream;
        stream.begin(weight, index);
        const panel::Part part = load_cached(weight.parts + index);
        // The data that the end needs is in flight as well.
        if (thread_index() * 64 <= static_cast<int>(part.row_count)) {
          prefetch(weight.row_slots + part.first_offset + thread_index() * 64);
        }
        wait_for_previous();  // the first steps are under way
        Input input;
        input.begin(x, row_bytes, weight.width, first_token, x_tokens);
        if (Input::kRelaid || input.whole) {
          accumulate<true>(weight, stream, input, sums);
        } else {
          typename Stream::Unhurried again;
          again.begin(weight, index);
          accumulate<false>(weight, again, input, sums);
        }
        panel::RowSlots slots = {};  // on their way while the block gathers at its barrier
        if (first_row() < static_cast<int>(part.row_count)) {
          slots = panel::row_slots_at(weight, part.first_offset + first_row());
        }
        block_barrier();  // the sums are there
        finish(weight, output, part, slots, sums, first_token, n);
        block_barrier();  // the sums have been read
      }
    }
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  template <bool kWhole, class AnyStream>
  static SPARSMITH_DEVICE void accumulate(const panel::Weight& weight, AnyStream& stream, const Input& input,
                                          float* sums) {
    constexpr int kDepth = AnyStream::kDepth;
    constexpr int kEarly = kWhole ? kAhead : 0;
    const u32 count = stream.share.step_count;
    if (count == 0) return;
    u32 task = stream.share.first_task;
    u32 slot = Products::slot(weight.task_slots, task);
    Products products;
    products.begin();
    typename Input::Rows rows[kEarly + 1];
    if constexpr (kEarly == 1) input.load(stream.steps[0], rows[0]);
    SPARSMITH_ROLLED for (u32 first = 0; first < count; first += kDepth) {
      SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) {
        if (first + d < count) {
          const panel::Step& step = stream.steps[d];
          if constexpr (kWhole && kEarly == 0) {
            input.load(step, rows[0]);
            // All rows are requested before one is used; without this barrier the compiler keeps two in flight. In
            // narrow teams, a single load requests enough lines.
            if constexpr (Input::Entry::kCount > 2 && kTeamLanes >= 4) warp_barrier();
          }
          if constexpr (kWhole && kEarly == 1) {
            if (first + d + 1 < count) input.load(stream.steps[(d + 1) % kDepth], rows[(d + 1) % 2]);
          }
          SPARSMITH_UNROLL for (int e = 0; e < Input::Entry::kCount; ++e) {
            products.multiply(step, e, kWhole ? rows[kEarly * (d % 2)].of[e] : input.load_by_token(step, e));
          }
          const bool ends = Input::Entry::ends_task(step);
          if (first + d + kDepth < count) stream.refill(d);
          if (ends) {
            products.put(slot, sums);
            slot = Products::slot(weight.task_slots, ++task);  // behind the last task stands one more
          }
        }
      }
      stream.advance();
    }
  }

  // Neighbouring threads store neighbouring elements: rows of a token, or the tokens of a row.
  static constexpr int kRun =
      kTokenMajor ? panel::kWarpLanes : 1;  // rows of which the threads of a team lane are neighbours
  // The first row that a thread finishes; the next rows follow at distances of kRowStep.
  static SPARSMITH_DEVICE int first_row() {
    return thread_index() / (kRun * kTeamLanes) * kRun + thread_index() % kRun;
  }
  static constexpr int kRowStep = kThreads / kTeamLanes;

  // `next`: the slots of this thread's first row.
  static SPARSMITH_DEVICE void finish(const panel::Weight& weight, const Output& output, const panel::Part& part,
                                      panel::RowSlots next, const float* sums, int first_token, int n) {
    const int rows = static_cast<int>(part.row_count);
    const int lane = thread_index() / kRun % kTeamLanes;
    for (int row = first_row(); row < rows; row += kRowStep) {
      const panel::RowSlots slots = next;
      if (row + kRowStep < rows) next = panel::row_slots_at(weight, part.first_offset + row + kRowStep);
      float totals[kTokens] = {};
      for (u32 slot = slots.begin; slot < slots.end; ++slot) {
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; t += 4) {
          const auto quad =
              *reinterpret_cast<const Vector<float, 4>*>(sums + Products::place(slot, lane * kTokens + t));
          SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) totals[t + i] += quad[i];
        }
      }
      output.store(part.first_row + row, first_token + lane * kTokens, n, totals);
    }
  }
};

}  // namespace sparsmith
