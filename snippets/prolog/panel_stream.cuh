// The weight's entries, streamed from global memory: a warp follows the steps of its share, one 16-byte load a lane and
// step, kDepth steps ahead of their use. The lanes of a team load the same.
//
// The first loads need no descriptor, since every share has the same room: they are under way before anything is
// known about the share.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

namespace panel {

// The arrays of a packed weight.
struct Weight {
  const u32* entries;
  const panel::Share* shares;
  const u16* task_slots;
  const panel::Part* parts;
  const u16* row_slots;
  int part_count;   // of a column part
  int share_steps;  // room of a share
  int width;        // columns of a column part
};

// Slots of a row, the last of which is end - 1.
struct RowSlots {
  u32 begin;
  u32 end;
};

// Of the row that stands at `offset`: its part's first_offset and its place in the part.
SPARSMITH_DEVICE RowSlots row_slots_at(const Weight& weight, u32 offset) {
  return {load_cached(weight.row_slots + offset), load_cached(weight.row_slots + offset + 1)};
}

using Step = Vector<u32, 4>;

// Every lane of a step says the same.
SPARSMITH_DEVICE bool ends_task(const Step& step) { return (step[0] & panel::kTaskEnd) != 0; }

}  // namespace panel

template <int kDepth_, int kWarps, int kTeamLanes_ = 1>
struct PanelStream {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kDepth_, 1, 2, 3, 4, 6)
  SPARSMITH_TUNE(kTeamLanes_, 1, 2, 4, 8)
  static_assert(kDepth_ <= panel::kSpareSteps, "loads ahead stay inside the array");

  static constexpr int kDepth = kDepth_;
  static constexpr int kTeamLanes = kTeamLanes_;
  static constexpr int kStepLoads = panel::kWarpLanes / kTeamLanes;  // of a warp
  using Unhurried = PanelStream<1, kWarps, kTeamLanes_>;  // for what is rarely done: takes the fewest registers

  const panel::Step* next;
  panel::Step steps[kDepth];
  panel::Share share;

  // Turns to this warp's share of a part, counted over all column parts.
  SPARSMITH_DEVICE void begin(const panel::Weight& weight, int part) {
    const int index = part * kWarps + thread_index() / panel::kWarpLanes;
    next = first_step(weight, index);
    SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) steps[d] = load_streaming(next + d * kStepLoads);
    next += kDepth * kStepLoads;
    share = load_cached(weight.shares + index);
  }

  // Asks for what begin() will load, into L2.
  SPARSMITH_DEVICE void prefetch(const panel::Weight& weight, int part) const {
    const int index = part * kWarps + thread_index() / panel::kWarpLanes;
    const panel::Step* first = first_step(weight, index);
    SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) sparsmith::prefetch(first + d * kStepLoads);
    sparsmith::prefetch(weight.shares + index);
  }

  // Step d of the next kDepth has been used: loads the one that takes its place.
  SPARSMITH_DEVICE void refill(int d) { steps[d] = load_streaming(next + d * kStepLoads); }
  SPARSMITH_DEVICE void advance() { next += kDepth * kStepLoads; }

 private:
  static SPARSMITH_DEVICE const panel::Step* first_step(const panel::Weight& weight, int index) {
    return reinterpret_cast<const panel::Step*>(weight.entries) +
           static_cast<i64>(index) * weight.share_steps * kStepLoads + thread_index() % panel::kWarpLanes / kTeamLanes;
  }
};

}  // namespace sparsmith
