// From the panel format back to rows.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "base/split.h"
#include "formats/packed_reader.h"
#include "formats/panel.h"
#include "formats/panel_tasks.h"
#include "formats/panel_words.h"

namespace sparsmith {
namespace {

using panel::EntryForm;
using panel::kNoSlot;
using panel::kPhaseLanes;
using panel::kWarpLanes;
using panel::kWholeRow;
using panel::StepWords;

bool is_power(int number) { return number >= 1 && std::has_single_bit(static_cast<unsigned>(number)); }

// Whether numbers of a packing go together.
bool is_sound(const PanelPacking& packing) {
  constexpr int kMostWarps = 32;
  constexpr int kMostColumnParts = 1 << 16;
  if (packing.row_parts < 1 || packing.column_parts < 1 || packing.column_parts > kMostColumnParts ||
      packing.warps < 1 || packing.warps > kMostWarps || packing.segment_length < 1 || !is_power(packing.segment_lanes))
    return false;
  if (packing.gathers()) {
    if (!is_power(packing.token_lanes) || packing.token_lanes > 8 || packing.segment_lanes > packing.lanes() ||
        packing.sweep_columns < 0 || packing.max_slots >= static_cast<int>(panel::kAddFlag) || packing.column_parts > 1)
      return false;
  } else if (packing.segment_lanes > 4 || (packing.whole_rows() && packing.max_slots > panel::kMostWholeRows)) {
    return false;
  }
  return packing.max_slots >= least_slots(packing) && packing.max_slots <= panel::kMostSlots;
}

std::optional<PanelPacking> packing_named(std::string_view name) {
  const auto parts = split(name, "_");
  if (parts.size() < 8) return std::nullopt;
  const auto number = [&](std::size_t i, std::string_view prefix) {
    return static_cast<int>(number_of(parts[i], prefix));
  };
  PanelPacking packing{.row_parts = number(1, "r"),
                       .column_parts = number(2, "k"),
                       .warps = number(3, "w"),
                       .segment_lanes = number(4, "t"),
                       .segment_length = number(5, "l"),
                       .max_slots = number(6, "s"),
                       .turned = false};
  if (parts[7].starts_with("gather")) {
    packing.token_lanes = number(7, "gather");
    packing.turned = true;  // as the packing is made, though there is no panel to turn
    if (parts.size() > 8) packing.sweep_columns = number(8, "sweep");
  }
  if (parts[7] == "tensor") packing.order = panel::LaneOrder::kTensor;
  if (parts[7] == "sparse") packing.order = panel::LaneOrder::kSparseTensor;
  for (const std::string_view part : std::span(parts).subspan(8)) {
    if (part == "turned") packing.turned = true;
    if (part == "rows") packing.row_store = panel::RowStore::kDirect;
    if (part == "staged") packing.row_store = panel::RowStore::kStaged;
    if (part == "added") packing.row_store = panel::RowStore::kAdded;
  }
  return packing.name() == name && is_sound(packing) ? std::optional(packing) : std::nullopt;
}

int packer_version(const PanelPacking& packing) { return packing.gathers() ? 4 : 5; }

Status check(const PanelPacking& packing, std::int64_t /*rows*/, std::int64_t cols, DataType type) {
  if (packing.staged() && size_of(type) != 2)
    return invalid_argument(fmt::format("panel: rows of {} wait in as much room as their sums", short_name(type)));
  if (!packing.gathers() && packing.width(cols) > panel::kMostRows - panel::kZeroRows)
    return invalid_argument(
        fmt::format("panel: K = {} in {} parts exceeds 16-bit columns", cols, packing.column_parts));
  return {};
}

class PanelReader : public PackedReader {
 public:
  PanelReader(const PackedView& view, const PanelPacking& packing, PackedParts& parts)
      : packing_(packing),
        rows_(view.rows),
        cols_(view.cols),
        words_(panel::step_words(view.value_type, packing.token_lanes, view.cols)),
        width_(packing.width(view.cols)),
        segments_(packing.segments()) {
    constexpr std::int64_t kMost = std::int64_t{1} << 48;
    for (const auto& [name, value] : panel::facts_of(packing, view.cols)) parts.expect_fact(name, value);
    parts_ = parts.fact("parts", 1, kMaxMatrixDimension);
    share_steps_ = parts.fact("share_steps", 1, std::int64_t{1} << 31);
    steps_ = parts.fact("steps", 0, kMost);
    slots_ = parts.fact("slots", 0, kMost);
    part_rows_ = parts.fact("rows", 0, kMost);
    padding_ = parts.fact("padding", 0, kMost);
    unread_bytes_ = parts.fact("unread_bytes", 0, kMost);
    phases_permille_ = parts.fact("phases_permille", 0, kMost);
    balance_permille_ = parts.fact("balance_permille", 0, kMost);
    const std::int64_t part_count = parts_ * packing.column_parts;
    const std::int64_t share_count = part_count * packing.warps;
    part_list_ = Elements<panel::Part>(parts.array<std::uint32_t>("parts", DataType::kUint32, part_count * 4).bytes());
    shares_ = Elements<panel::Share>(parts.array<std::uint32_t>("shares", DataType::kUint32, share_count * 2).bytes());
    task_slots_ = parts.array<std::uint16_t>("task_slots", DataType::kUint16);
    row_slots_ = parts.array<std::uint16_t>("row_slots", DataType::kUint16, (rows_ + parts_) * packing.column_parts);
    // Not by multiplication, which may overflow.
    entries_ = parts.array<std::uint32_t>("entries", DataType::kUint32);
    const std::int64_t all_steps = entries_.size() / words_.step();
    parts.require(entries_.size() % words_.step() == 0 && share_count > 0 && all_steps >= panel::kSpareSteps &&
                      (all_steps - panel::kSpareSteps) % share_count == 0 &&
                      (all_steps - panel::kSpareSteps) / share_count == share_steps_,
                  "array entries has no room of share_steps for each share");
    parts.require(task_slots_.size() >= segments_ && task_slots_.size() % segments_ == 0,
                  "array task_slots is not of whole tasks");
    parts.require(parts_ % packing.row_parts == 0, "parts are no multiple of those of the packing's name");
  }

  Status check_bounds(int threads) override {
    SPARSMITH_RETURN_IF_ERROR(check_parts());
    SPARSMITH_RETURN_IF_ERROR(check_steps(threads));
    SPARSMITH_RETURN_IF_ERROR(check_shares());
    return check_each(parts_, 1, threads, [&](std::int64_t part) { return check_slots(part); });
  }

  std::int64_t units() const override { return parts_; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(unit, part_list_[unit].row_count);
    for (std::int64_t column_part = 0; column_part < packing_.column_parts; ++column_part) {
      const std::int64_t part = column_part * parts_ + unit;
      if (!with_form([&]<EntryForm kForm>() { return read_part<kForm>(part, rows); }))
        return invalid_input(fmt::format("part {}: padding that no packer writes, or a nonzero without a row", part));
    }
    return rows.store_from(part_list_[unit].first_row);
  }

  Status check_whole(const UnpackedRows& rows) const override {
    const std::int64_t stored = steps_ * words_.lanes * words_.entries();
    const std::int64_t phases = packing_.gathers() ? stored / kPhaseLanes : phases_.load();
    if (padding_ != stored - rows.nnz() ||
        phases_permille_ != (stored == 0 ? 1000 : phases * 1000 * kPhaseLanes / stored))
      return invalid_input("facts count other padding or phases than there are");
    const Elements<std::uint32_t> spare(
        entries_.bytes().last(static_cast<std::size_t>(panel::kSpareSteps * words_.step()) * 4));
    if (!all_zero(spare.bytes())) return invalid_input("steps behind the last share are not 0");
    std::vector<std::uint16_t> row_segments;
    for (std::int64_t part = 0; packing_.adds() && part < parts_; ++part)
      for (std::uint32_t row = 0; row < part_list_[part].row_count; ++row)
        row_segments.push_back(
            static_cast<std::uint16_t>(slots_end(part_list_[part], row) - slots_begin(part_list_[part], row)));
    const std::vector<std::int64_t> bounds = panel::part_bounds(rows.offsets(), packing_, row_segments, parts_);
    bool same = std::ssize(bounds) == parts_ + 1;
    for (std::int64_t part = 0; same && part < parts_; ++part) same = part_list_[part].first_row == bounds[part];
    return same ? Status{} : invalid_input("parts begin at rows where no packer begins them");
  }

 private:
  // What a part's warps have used of its slots.
  struct SlotUse {
    std::vector<std::uint32_t> row_of_slot;
    std::vector<std::uint32_t> next;    // of each row, the slot that is not used yet
    std::vector<std::int64_t> task;     // of each slot, in sweeps: the last one that added to it, or -1
    std::vector<std::int64_t> entries;  // the same: how many it has
    std::vector<bool> stored;           // of rows that are whole
  };

  std::uint32_t slot_mask() const { return packing_.whole_rows() ? ~kWholeRow : ~0U; }
  std::uint32_t slots_begin(const panel::Part& part, std::uint32_t row) const {
    return row_slots_[std::int64_t{part.first_offset} + row] & slot_mask();
  }
  std::uint32_t slots_end(const panel::Part& part, std::uint32_t row) const { return slots_begin(part, row + 1); }
  bool is_whole(const panel::Part& part, std::uint32_t row) const {
    return packing_.whole_rows() && (row_slots_[std::int64_t{part.first_offset} + row] & kWholeRow) != 0;
  }
  const std::byte* step_at(std::int64_t share, std::int64_t step) const {
    return entries_.at((share * share_steps_ + step) * words_.step());
  }
  Elements<std::uint32_t> words_at(const std::byte* step) const {
    return Elements<std::uint32_t>({step, static_cast<std::size_t>(words_.step()) * 4});
  }
  // What body<form>() returns, with a form that the compiler knows.
  template <class Body>
  bool with_form(const Body& body) const {
    switch (words_.form) {
      case EntryForm::kHalves: return body.template operator()<EntryForm::kHalves>();
      case EntryForm::kWords: return body.template operator()<EntryForm::kWords>();
      default: return body.template operator()<EntryForm::kApart>();
    }
  }
  template <EntryForm kForm>
  StepWords words_of() const {
    return {words_.lanes, kForm, words_.task_end};
  }

  // The parts of a column part hold its rows one after the other, and all parts share out row_slots.
  Status check_parts() const {
    std::uint64_t row = 0;
    std::uint64_t offset = 0;
    std::int64_t most_slots = 0;
    std::int64_t most_rows = 0;
    for (std::int64_t i = 0; i < part_list_.size(); ++i) {
      const panel::Part part = part_list_[i];
      if (i % parts_ == 0) row = 0;
      if (part.first_row != row || part.first_offset != offset || part.slot_count > panel::kMostSlots ||
          (packing_.whole_rows() && std::max(part.row_count, part.slot_count) > panel::kMostWholeRows) ||
          (packing_.sweep_columns > 0 && part.slot_count >= panel::kAddFlag) ||
          part.row_count > static_cast<std::uint64_t>(rows_) - row ||
          part.row_count != part_list_[i % parts_].row_count)
        return invalid_input(fmt::format("part {} is not where the one before it ends", i));
      row += part.row_count;
      offset += std::uint64_t{part.row_count} + 1;
      most_slots = std::max<std::int64_t>(most_slots, part.slot_count);
      most_rows = std::max<std::int64_t>(most_rows, part.row_count);
      if ((i + 1) % parts_ == 0 && row != static_cast<std::uint64_t>(rows_))
        return invalid_input(fmt::format("parts of {} rows, not of {}", row, rows_));
    }
    if (offset != static_cast<std::uint64_t>(row_slots_.size()) || most_slots != slots_ || most_rows != part_rows_)
      return invalid_input("facts count other rows and slots than parts have");
    return {};
  }

  // All gathers stay inside, and the lanes of a warp agree where tasks end.
  Status check_steps(int threads) {
    tasks_.assign(shares_.size(), 0);
    return check_each(shares_.size(), 4, threads, [&](std::int64_t share) -> Status {
      if (shares_[share].step_count > share_steps_) return invalid_input(fmt::format("share {} is too long", share));
      if (with_form([&]<EntryForm kForm>() { return share_inside<kForm>(share); })) return {};
      return invalid_input(
          fmt::format("share {} gathers from outside, or its lanes end tasks at different steps", share));
    });
  }

  template <EntryForm kForm>
  bool share_inside(std::int64_t share) {
    bool inside = true;
    bool ends = true;  // in the last step
    for (std::int64_t step = 0; step < shares_[share].step_count; ++step) {
      inside &= step_inside<kForm>(step_at(share, step), ends);
      tasks_[share] += ends ? 1 : 0;
    }
    return inside && ends;
  }

  template <EntryForm kForm>
  bool step_inside(const std::byte* step, bool& ends) const {
    const std::uint32_t last =
        static_cast<std::uint32_t>(packing_.gathers() ? cols_ + 1 : width_ + panel::kZeroRows) - 1;
    const std::uint32_t flag = words_.task_end;
    std::uint32_t wrong = 0;  // in the highest bit
    std::uint32_t any = 0;
    std::uint32_t all = ~0U;
    const int lanes = words_.lanes;
    const std::byte* columns = kForm == EntryForm::kApart ? step + lanes * 16 : step;
    constexpr int kLaneWords = kForm == EntryForm::kApart ? 2 : 4;
    for (int lane = 0; lane < lanes; ++lane) {
      std::array<std::uint32_t, kLaneWords> w;
      std::memcpy(w.data(), columns + lane * kLaneWords * 4, sizeof(w));
      any |= w[0];
      all &= w[0];
      if constexpr (kForm == EntryForm::kHalves) {
        wrong |= (last - (w[0] & 0x7FFFU)) | (last - (w[1] & 0xFFFFU)) | (last - (w[2] & 0xFFFFU)) |
                 (last - (w[3] & 0xFFFFU));
      } else if constexpr (kForm == EntryForm::kWords) {
        wrong |= (last - (w[0] & ~panel::kWideTaskEnd)) | (last - w[2]) | w[2];
      } else {
        wrong |= (last - (w[0] & 0x7FFFU)) | (last - (w[0] >> 16)) | (last - (w[1] & 0xFFFFU)) | (last - (w[1] >> 16));
      }
    }
    ends = (any & flag) != 0;
    return wrong >> 31 == 0 && ((any ^ all) & flag) == 0;
  }

  // Tasks follow one another in the order of shares.
  Status check_shares() const {
    std::int64_t tasks = 0;
    std::int64_t steps = 0;
    std::int64_t longest = 1;
    for (std::int64_t i = 0; i < shares_.size(); ++i) {
      const panel::Share share = shares_[i];
      if (share.first_task != tasks) return invalid_input(fmt::format("share {} begins with another's task", i));
      tasks += tasks_[i];
      steps += share.step_count;
      longest = std::max<std::int64_t>(longest, share.step_count);
    }
    if (tasks + 1 != task_slots_.size() / segments_)
      return invalid_input(fmt::format("task_slots: {} tasks, not {}", task_slots_.size() / segments_ - 1, tasks));
    for (std::int64_t i = tasks * segments_; i < task_slots_.size(); ++i)
      if (task_slots_[i] != kNoSlot) return invalid_input("task_slots: the last task has a slot");
    const std::int64_t share_count = shares_.size();
    if (steps != steps_ || longest != share_steps_ ||
        unread_bytes_ != (share_count * share_steps_ - steps) * words_.step() * 4 ||
        balance_permille_ != (steps == 0 ? 1000 : share_steps_ * share_count * 1000 / steps))
      return invalid_input("facts count other steps than shares have");
    return {};
  }

  // Of a part in all column parts: rows share out its slots, and every slot is one segment's, in the order of tasks.
  Status check_slots(std::int64_t part) const {
    std::vector<bool> filled(part_list_[part].row_count, false);  // rows that use all of their slots
    for (std::int64_t column_part = 0; column_part < packing_.column_parts; ++column_part) {
      const std::int64_t index = column_part * parts_ + part;
      const panel::Part& of_part = part_list_[index];
      SlotUse use;
      if (!begin_slots(of_part, use) || (packing_.adds() && !same_slots(of_part, part_list_[part])))
        return invalid_input(fmt::format("row_slots: part {} does not share out its slots", index));
      for (std::int64_t warp = 0; warp < packing_.warps; ++warp) {
        const std::int64_t share = index * packing_.warps + warp;
        const std::int64_t first = std::int64_t{shares_[share].first_task} * segments_;
        const std::int64_t end = first + std::int64_t{tasks_[share]} * segments_;
        for (std::int64_t i = first; i < end; ++i)
          if (task_slots_[i] != kNoSlot && !use_slot(task_slots_[i], i / segments_, first / segments_, of_part, use))
            return invalid_input(fmt::format("task_slots: part {} has no such slot as {}", index, task_slots_[i]));
      }
      for (std::uint32_t row = 0; row < of_part.row_count; ++row) {
        const bool all = packing_.sweep_columns > 0 || use.next[row] == slots_end(of_part, row);
        filled[row] = filled[row] || all;
        if ((!packing_.adds() && !all) || (is_whole(of_part, row) && !use.stored[row]))
          return invalid_input(fmt::format("task_slots: row {} of part {} lacks a segment", row, index));
      }
      for (const std::int64_t task : use.task)
        if (task < 0) return invalid_input(fmt::format("task_slots: part {} does not use all of its slots", index));
    }
    if (std::ranges::find(filled, false) != filled.end())
      return invalid_input(fmt::format("row_slots: a row of part {} has more slots than segments", part));
    return {};
  }

  // Whether rows have the same slots in both.
  bool same_slots(const panel::Part& a, const panel::Part& b) const {
    return std::memcmp(row_slots_.at(a.first_offset), row_slots_.at(b.first_offset),
                       (std::size_t{a.row_count} + 1) * sizeof(std::uint16_t)) == 0;
  }

  bool begin_slots(const panel::Part& part, SlotUse& use) const {
    if (row_slots_[std::int64_t{part.first_offset} + part.row_count] != part.slot_count) return false;
    use.row_of_slot.resize(part.slot_count);
    use.stored.assign(packing_.whole_rows() ? part.row_count : 0, false);
    if (packing_.sweep_columns > 0) {
      use.task.assign(part.slot_count, -1);
      use.entries.assign(part.slot_count, 0);
    }
    std::uint32_t last = 0;
    for (std::uint32_t row = 0; row < part.row_count; ++row) {
      const std::uint32_t begin = slots_begin(part, row);
      const std::uint32_t end = slots_end(part, row);
      if (begin != last || end < begin || end > part.slot_count) return false;
      if (packing_.whole_rows() && end - begin == 1) return false;
      if (is_whole(part, row) && end != begin) return false;
      use.next.push_back(begin);
      for (; last < end; ++last) use.row_of_slot[last] = row;
    }
    return last == part.slot_count;
  }

  // `first_task`: of the warp, which adds to its own slots only, and once a task.
  bool use_slot(std::uint32_t slot, std::int64_t task, std::int64_t first_task, const panel::Part& part,
                SlotUse& use) const {
    if (packing_.whole_rows() && (slot & kWholeRow) != 0) {
      slot &= ~kWholeRow;
      if (slot >= part.row_count || !is_whole(part, slot) || use.stored[slot]) return false;
      use.stored[slot] = true;
      return true;
    }
    if (packing_.sweep_columns > 0) {
      const bool adds = (slot & panel::kAddFlag) != 0;
      slot &= ~panel::kAddFlag;
      if (slot >= part.slot_count) return false;
      const std::int64_t before = use.task[slot];
      if (adds ? before < first_task || before == task : before >= 0) return false;
      use.task[slot] = task;
      return true;
    }
    return slot < part.slot_count && use.next[use.row_of_slot[slot]]++ == slot;
  }

  // Adds a part's nonzeros to its rows. False where padding is not as packers write it, or an idle segment has one.
  template <EntryForm kForm>
  bool read_part(std::int64_t index, UnitRows& rows) const {
    const panel::Part part = part_list_[index];
    SlotUse use;
    begin_slots(part, use);
    std::int64_t phases = 0;
    bool sound = true;
    for (std::int64_t warp = 0; warp < packing_.warps; ++warp) {
      const std::int64_t share = index * packing_.warps + warp;
      const std::int64_t count = shares_[share].step_count;
      std::int64_t task = shares_[share].first_task;
      for (std::int64_t first = 0; first < count; ++task) {
        std::int64_t end = first + 1;
        while (!words_of<kForm>().ends_task(words_at(step_at(share, end - 1)))) ++end;
        sound &= read_task<kForm>(task, step_at(share, first), end - first, index / parts_ * width_, use, rows);
        for (; !packing_.gathers() && first < end; ++first) sound &= count_phases<kForm>(step_at(share, first), phases);
        first = end;
      }
      const auto room = static_cast<std::size_t>((share_steps_ - count) * words_.step()) * 4;
      sound &= all_zero({step_at(share, count), room});
    }
    phases_ += phases;
    return sound && (packing_.sweep_columns == 0 || shares_evenly(part, use));
  }

  // Whether the slots of each row have equally many entries, the first ones one more.
  bool shares_evenly(const panel::Part& part, const SlotUse& use) const {
    for (std::size_t slot = 1; slot < use.entries.size(); ++slot) {
      const std::int64_t more = use.entries[slot - 1] - use.entries[slot];
      const std::uint32_t row = use.row_of_slot[slot];
      if (use.row_of_slot[slot - 1] == row && (more < 0 || use.entries[slots_begin(part, row)] - use.entries[slot] > 1))
        return false;
    }
    return true;
  }

  // Lane by lane, since a lane's entries are all of one row.
  template <EntryForm kForm>
  bool read_task(std::int64_t task, const std::byte* steps, std::int64_t count, std::int64_t first_column, SlotUse& use,
                 UnitRows& rows) const {
    const StepWords words = words_of<kForm>();
    const int entries = words.entries();
    const std::int64_t step_bytes = words_.step() * 4;
    const std::uint32_t idle_from = static_cast<std::uint32_t>(packing_.gathers() ? cols_ : width_);
    std::uint32_t idle_bits = 0;
    bool sound = true;
    for (int holder = 0; holder < words_.lanes; ++holder) {
      const int lane = panel::value_lane(packing_.order, holder);
      const int segment = panel::segment_of_lane(packing_.order, segments_, lane);
      std::uint32_t slot = task_slots_[task * segments_ + segment];
      std::size_t row = 0;
      const bool has_row = slot != kNoSlot;
      if (has_row && packing_.whole_rows() && (slot & kWholeRow) != 0) {
        row = slot & ~kWholeRow;
      } else if (has_row) {
        row = use.row_of_slot[packing_.sweep_columns > 0 ? slot & ~panel::kAddFlag : slot];
      }
      UnitRows::Entry* const begin = has_row ? rows.room(row, static_cast<std::size_t>(count * entries)) : nullptr;
      UnitRows::Entry* to = begin;
      for (std::int64_t step = 0; step < count; ++step) {
        const Elements<std::uint32_t> at = words_at(steps + step * step_bytes);
        for (int e = 0; e < entries; ++e) {
          const std::uint32_t named = words.column(at, lane, e);
          const std::uint32_t bits = words.value(at, holder, e);
          const bool is_idle = named >= idle_from;
          idle_bits |= is_idle ? bits : 0;
          if (!has_row) {
            sound &= is_idle;
            continue;
          }
          const auto column = packing_.turned && !packing_.gathers()
                                  ? static_cast<std::uint32_t>(panel::panel_row(static_cast<int>(named)))
                                  : named;
          *to = {static_cast<std::uint32_t>(first_column) + column, bits};
          to += is_idle ? 0 : 1;
        }
      }
      if (!has_row) continue;
      rows.take(row, to);
      if (packing_.sweep_columns > 0) use.entries[slot & ~panel::kAddFlag] += to - begin;
    }
    return sound && idle_bits == 0;
  }

  // Counts what shared memory does one after the other, of each gather of 8 lanes. False where idle lanes do not read
  // the first bank that no other lane reads.
  template <EntryForm kForm>
  bool count_phases(const std::byte* step, std::int64_t& phases) const {
    const auto width = static_cast<std::uint32_t>(width_);
    const StepWords words = words_of<kForm>();
    const Elements<std::uint32_t> at = words_at(step);
    std::uint32_t wrong = 0;
    for (int e = 0; e < 4; ++e) {
      for (int phase = 0; phase < kWarpLanes; phase += kPhaseLanes) {
        std::uint32_t readers = 0;  // of each bank, in 4 bits
        std::array<std::uint32_t, kPhaseLanes> named;
        for (int i = 0; i < kPhaseLanes; ++i) {
          named[i] = words.column(at, phase + i, e);
          readers += static_cast<std::uint32_t>(named[i] < width) << (named[i] % kPhaseLanes * 4);
        }
        const std::uint32_t used = (readers | readers >> 1 | readers >> 2 | readers >> 3) & 0x11111111U;
        const auto idle =
            width +
            static_cast<std::uint32_t>(std::countr_one(used | used << 1 | used << 2 | used << 3)) / 4 % kPhaseLanes;
        for (const std::uint32_t name : named) wrong |= name >= width ? name ^ idle : 0U;
        std::uint32_t most = 1;
        if ((readers & 0xEEEEEEEEU) != 0)
          for (; readers != 0; readers >>= 4) most = std::max(most, readers & 0xFU);
        phases += most;
      }
    }
    return wrong == 0;
  }

  const PanelPacking packing_;
  const std::int64_t rows_;
  const std::int64_t cols_;
  const StepWords words_;
  const std::int64_t width_;
  const int segments_;  // of a task
  std::int64_t parts_ = 0, share_steps_ = 0, steps_ = 0, slots_ = 0, part_rows_ = 0, padding_ = 0, unread_bytes_ = 0,
               phases_permille_ = 0, balance_permille_ = 0;
  Elements<panel::Part> part_list_;
  Elements<panel::Share> shares_;
  Elements<std::uint16_t> task_slots_, row_slots_;
  Elements<std::uint32_t> entries_;
  std::vector<std::uint32_t> tasks_;  // of each share
  mutable std::atomic<std::int64_t> phases_ = 0;
};

}  // namespace

PackedFormat panel_format() {
  return format_of<PanelReader, packing_named, panel::pack, packer_version, check>(
      {.name = "panel", .value_arrays = {"entries"}});
}

}  // namespace sparsmith
