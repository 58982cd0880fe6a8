// The places of entries in the words of a step.
#pragma once

#include <cstdint>

#include "formats/panel_layout.h"
#include "sparsmith/data_type.h"

namespace sparsmith::panel {

constexpr std::int64_t kMostSlots = 65534;

// The form of a lane's entries in a step. kHalves: the column is in the low half of a word, the value in the high half.
// kWords: column and value have a word each. kApart: first the values, four words per lane; then, behind the values of
// all lanes, the columns as half words, two words per lane.
enum class EntryForm : unsigned char { kHalves, kWords, kApart };

struct StepWords {
  int lanes;  // lanes with entries of their own
  EntryForm form;
  std::uint32_t task_end;

  int entries() const { return form == EntryForm::kWords ? 2 : 4; }  // entries of a lane
  std::int64_t step() const { return std::int64_t{lanes} * (form == EntryForm::kApart ? 6 : 4); }

  // The column of entry e of a lane, in the step whose words are step[0], step[1], ... The mark of a task's end is
  // masked out.
  template <class Words>
  std::uint32_t column(const Words& step, int lane, int e) const {
    const std::uint32_t word = step[column_word(lane, e)];
    if (form == EntryForm::kWords) return word & ~task_end;
    return (form == EntryForm::kApart && e % 2 == 1 ? word >> 16 : word & 0xFFFFU) & ~task_end;
  }
  template <class Words>
  std::uint32_t value(const Words& step, int lane, int e) const {
    return form == EntryForm::kHalves ? step[lane * 4 + e] >> 16 : step[value_word(lane, e)];
  }
  template <class Words>
  bool ends_task(const Words& step) const {
    return (step[column_word(0, 0)] & task_end) != 0;
  }

  // Writes entry e of a lane. REQUIRES: its words are 0.
  void write(std::uint32_t* step, int lane, int e, std::uint32_t column, std::uint32_t value) const {
    step[column_word(lane, e)] |= form == EntryForm::kApart && e % 2 == 1 ? column << 16 : column;
    step[value_word(lane, e)] |= form == EntryForm::kHalves ? value << 16 : value;
  }
  void end_task(std::uint32_t* step) const {
    for (int lane = 0; lane < lanes; ++lane) step[column_word(lane, 0)] |= task_end;
  }

 private:
  int column_word(int lane, int e) const {
    switch (form) {
      case EntryForm::kHalves: return lane * 4 + e;
      case EntryForm::kWords: return lane * 4 + 2 * e;
      default: return lanes * 4 + lane * 2 + e / 2;
    }
  }
  int value_word(int lane, int e) const { return lane * 4 + (form == EntryForm::kWords ? 2 * e + 1 : e); }
};

// token_lanes: as in PanelPacking. 0: a panel, whose column parts always fit 15 bits.
constexpr StepWords step_words(DataType type, int token_lanes, std::int64_t cols) {
  const bool fp32 = type == DataType::kFloat32;
  if (token_lanes == 0) return {kWarpLanes, fp32 ? EntryForm::kApart : EntryForm::kHalves, kTaskEnd};
  const bool wide = fp32 || cols >= std::int64_t{kTaskEnd};
  return {kWarpLanes / token_lanes, wide ? EntryForm::kWords : EntryForm::kHalves, wide ? kWideTaskEnd : kTaskEnd};
}

}  // namespace sparsmith::panel
