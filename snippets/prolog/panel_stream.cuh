// Streams the weight's entries from global memory: a warp follows the steps of its share, with one or two loads per
// lane and step, kDepth steps before they are used. The lanes of a team load the same words.
//
// The first loads need no descriptor, because all shares have equal room: they are in flight before anything is known
// about the share.
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

// The slots of a row; the last of them is end - 1.
struct RowSlots {
  u32 begin;
  u32 end;
};

// The slots of the row at `offset`: its part's first_offset plus its place in the part.
SPARSMITH_DEVICE RowSlots row_slots_at(const Weight& weight, u32 offset) {
  return {load_cached(weight.row_slots + offset), load_cached(weight.row_slots + offset + 1)};
}

// A lane's part of a step: entries in one word each, or in two.
using Step = Vector<u32, 4>;
// Four entries, with values and rows apart; two rows per word.
struct ApartStep {
  Vector<u32, 4> values;
  Vector<u32, 2> rows;
};

template <int kValueBytes>
struct StepOfBytes {
  using Type = Step;
};
template <>
struct StepOfBytes<4> {
  using Type = ApartStep;
};
// For a weight that is packed for panels.
template <class Value>
using StepOf = typename StepOfBytes<sizeof(Value)>::Type;

// The same for every lane of a step.
SPARSMITH_DEVICE bool ends_task(const Step& step) { return (step[0] & panel::kTaskEnd) != 0; }
SPARSMITH_DEVICE bool ends_task(const ApartStep& step) { return (step.rows[0] & panel::kTaskEnd) != 0; }

// The place of a warp's next steps, with kLanes lanes that have their own entries.
template <class AnyStep, int kLanes>
struct StepCursor;

template <int kLanes>
struct StepCursor<Step, kLanes> {
  const Step* next;

  // Turns to step number `step`.
  SPARSMITH_DEVICE void begin(const u32* entries, i64 step, int lane) {
    next = reinterpret_cast<const Step*>(entries) + step * kLanes + lane;
  }
  SPARSMITH_DEVICE Step load(int ahead) const { return load_streaming(next + ahead * kLanes); }
  SPARSMITH_DEVICE void prefetch(int ahead) const { sparsmith::prefetch(next + ahead * kLanes); }
  SPARSMITH_DEVICE void advance(int steps) { next += steps * kLanes; }
};

template <int kLanes>
struct StepCursor<ApartStep, kLanes> {
  using Values = Vector<u32, 4>;
  using Rows = Vector<u32, 2>;
  static constexpr int kStepBytes = kLanes * static_cast<int>(sizeof(Values) + sizeof(Rows));
  static constexpr int kStepValues = kStepBytes / static_cast<int>(sizeof(Values));
  static constexpr int kStepRows = kStepBytes / static_cast<int>(sizeof(Rows));

  const Values* values;
  const Rows* rows;

  SPARSMITH_DEVICE void begin(const u32* entries, i64 step, int lane) {
    const u8* first = reinterpret_cast<const u8*>(entries) + step * kStepBytes;
    values = reinterpret_cast<const Values*>(first) + lane;
    rows = reinterpret_cast<const Rows*>(first + kLanes * sizeof(Values)) + lane;
  }
  SPARSMITH_DEVICE ApartStep load(int ahead) const {
    return {load_streaming(values + ahead * kStepValues), load_streaming(rows + ahead * kStepRows)};
  }
  SPARSMITH_DEVICE void prefetch(int ahead) const {
    sparsmith::prefetch(values + ahead * kStepValues);
    sparsmith::prefetch(rows + ahead * kStepRows);
  }
  SPARSMITH_DEVICE void advance(int steps) {
    values += steps * kStepValues;
    rows += steps * kStepRows;
  }
};

}  // namespace panel

template <class Step_, int kDepth_, int kWarps, int kTeamLanes_ = 1>
struct PanelStream {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kDepth_, 1, 2, 3, 4, 6)
  SPARSMITH_TUNE(kTeamLanes_, 1, 2, 4, 8)
  static_assert(kDepth_ <= panel::kSpareSteps, "loads ahead stay inside the array");

  using Step = Step_;
  static constexpr int kDepth = kDepth_;
  static constexpr int kTeamLanes = kTeamLanes_;
  using Unhurried = PanelStream<Step, 1, kWarps, kTeamLanes_>;  // for what is rarely done: takes the fewest registers

  panel::StepCursor<Step, panel::kWarpLanes / kTeamLanes> cursor;
  Step steps[kDepth];
  panel::Share share;

  // Turns to this warp's share of a part, counted over all column parts.
  SPARSMITH_DEVICE void begin(const panel::Weight& weight, int part) {
    const int index = turn(weight, part);
    SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) steps[d] = cursor.load(d);
    cursor.advance(kDepth);
    share = load_cached(weight.shares + index);
  }

  // Prefetches to L2 the words that begin() will load.
  SPARSMITH_DEVICE void prefetch(const panel::Weight& weight, int part) {
    const int index = turn(weight, part);
    SPARSMITH_UNROLL for (int d = 0; d < kDepth; ++d) cursor.prefetch(d);
    sparsmith::prefetch(weight.shares + index);
  }

  // Loads the step that replaces step d of the next kDepth. REQUIRES: step d has been used.
  SPARSMITH_DEVICE void refill(int d) { steps[d] = cursor.load(d); }
  SPARSMITH_DEVICE void advance() { cursor.advance(kDepth); }

 private:
  // Turns to this warp's share of a part, and returns the number of the share.
  SPARSMITH_DEVICE int turn(const panel::Weight& weight, int part) {
    const int index = part * kWarps + thread_index() / panel::kWarpLanes;
    cursor.begin(weight.entries, static_cast<i64>(index) * weight.share_steps,
                 thread_index() % panel::kWarpLanes / kTeamLanes);
    return index;
  }
};

}  // namespace sparsmith
