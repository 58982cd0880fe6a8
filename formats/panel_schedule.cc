#include "formats/panel_schedule.h"

#include <algorithm>
#include <array>
#include <bit>

namespace sparsmith::panel {

TaskSchedule::TaskSchedule(const CsrMatrix& matrix, const PanelPacking& packing,
                           const std::vector<std::uint32_t>& entries, const Task& task, int step_entries,
                           std::int64_t first_column)
    : matrix_(matrix),
      packing_(packing),
      entries_(entries),
      first_column_(first_column),
      zero_row_(static_cast<int>(packing.width(matrix.cols))),
      supplies_(task.segments.size()) {
  for (int lane = 0; lane < kWarpLanes; ++lane)
    segment_of_[lane] = segment_of_lane(packing.order, packing.segments(), lane);
  for (std::size_t s = 0; s < supplies_.size(); ++s) {
    Supply& supply = supplies_[s];
    const Segment& segment = task.segments[s];
    supply.left = segment.length;
    supply.room = std::int64_t{task.steps} * step_entries * packing.segment_lanes;
    std::uint32_t at = segment.first;
    for (int bank = 0; bank < kPhaseLanes; ++bank) {
      supply.next[bank] = at;
      while (at < segment.first + segment.length && bank_of(matrix, packing, entries[at], first_column) == bank) ++at;
      supply.end[bank] = at;
      if (supply.next[bank] < at) supply.banks |= 1U << bank;
    }
  }
}

std::uint32_t TaskSchedule::take(Supply& supply, int bank) {
  const std::uint32_t entry = entries_[supply.next[bank]++];
  if (supply.next[bank] == supply.end[bank]) supply.banks &= ~(1U << bank);
  --supply.left;
  return entry;
}

namespace {

// The largest set of lanes that can each have a bank of their own (augmenting paths; Kuhn, 1955).
class BankMatching {
 public:
  BankMatching(const std::array<std::uint32_t, kPhaseLanes>& banks, const std::array<int, kPhaseLanes>& bank_order)
      : banks_(banks), bank_order_(bank_order) {
    lane_of.fill(-1);
  }

  bool add(int lane) {
    std::uint32_t visited = 0;
    return augment(lane, visited);
  }

  std::array<int, kPhaseLanes> lane_of;  // of a bank; -1: none

 private:
  bool augment(int lane, std::uint32_t& visited) {
    const std::uint32_t possible = banks_[lane];
    if (const std::uint32_t free = possible & ~held_; free != 0) {
      const int bank = *std::ranges::find_if(bank_order_, [free](int each) { return (free >> each & 1U) != 0; });
      held_ |= 1U << bank;
      lane_of[bank] = lane;
      return true;
    }
    for (const int bank : bank_order_) {
      const std::uint32_t bit = 1U << bank;
      if ((possible & bit & ~visited) == 0) continue;
      visited |= bit;
      int& holder = lane_of[bank];
      if (augment(holder, visited)) {
        holder = lane;
        return true;
      }
    }
    return false;
  }

  const std::array<std::uint32_t, kPhaseLanes>& banks_;
  const std::array<int, kPhaseLanes>& bank_order_;
  std::uint32_t held_ = 0;  // banks
};

// Sorts the eight lanes or banks by descending key.
template <class Key>
std::array<int, kPhaseLanes> ordered(const Key& key) {
  std::array<int, kPhaseLanes> order{};
  std::array<std::int64_t, kPhaseLanes> keys{};
  for (int i = 0; i < kPhaseLanes; ++i) {
    const std::int64_t own = key(i);
    int at = i;
    for (; at > 0 && keys[static_cast<std::size_t>(at) - 1] < own; --at) {
      keys[at] = keys[static_cast<std::size_t>(at) - 1];
      order[at] = order[static_cast<std::size_t>(at) - 1];
    }
    keys[at] = own;
    order[at] = i;
  }
  return order;
}

}  // namespace

void TaskSchedule::fill_phase(int phase, Gather& gather) {
  std::array<Supply*, kPhaseLanes> supplies{};
  std::array<std::uint32_t, kPhaseLanes> banks{};
  std::array<std::uint32_t, kPhaseLanes> crowd{};
  for (int i = 0; i < kPhaseLanes; ++i) {
    Supply& supply = supplies_[segment_of_[phase * kPhaseLanes + i]];
    supplies[i] = &supply;
    banks[i] = supply.banks;
    for (int bank = 0; bank < kPhaseLanes; ++bank) crowd[bank] += supply.end[bank] - supply.next[bank];
  }
  const auto bank_order = ordered([&](int bank) { return crowd[bank]; });
  // Lanes that cannot wait come first.
  const auto lane_order = ordered([&](int lane) {
    const Supply& supply = *supplies[lane];
    return supply.left - supply.room;
  });
  BankMatching matching(banks, bank_order);
  for (const int lane : lane_order) matching.add(lane);

  std::uint32_t used = 0;
  std::array<int, kPhaseLanes> readers{};
  std::array<int, kPhaseLanes> bank_of_lane{};
  bank_of_lane.fill(-1);
  for (int bank = 0; bank < kPhaseLanes; ++bank) {
    const int lane = matching.lane_of[bank];
    if (lane < 0) continue;
    bank_of_lane[lane] = bank;
    used |= 1U << bank;
  }
  // A lane without a bank of its own waits, unless its segment needs every lane that it still has.
  for (int lane = 0; lane < kPhaseLanes; ++lane) {
    Supply& supply = *supplies[lane];
    int& bank = bank_of_lane[lane];
    if (bank < 0 && supply.left > 0 && supply.left >= supply.room) {
      bank = std::countr_zero(supply.banks);
      for (int other = bank + 1; other < kPhaseLanes; ++other)
        if (supply.end[other] - supply.next[other] > supply.end[bank] - supply.next[bank]) bank = other;
      used |= 1U << bank;
    }
    --supply.room;
    const int at = phase * kPhaseLanes + lane;
    gather.entry[at] = -1;
    if (bank < 0) continue;
    ++readers[bank];
    const std::uint32_t entry = take(supply, bank);
    gather.entry[at] = entry;
    gather.panel_row[at] = static_cast<std::uint16_t>(row_of(matrix_, packing_, entry, first_column_));
  }
  // Idle lanes all read the zeros of one bank that nobody else reads; there is one, since some lane has none.
  const int idle_bank = std::countr_one(used) % kPhaseLanes;
  for (int lane = 0; lane < kPhaseLanes; ++lane) {
    const int at = phase * kPhaseLanes + lane;
    if (gather.entry[at] < 0) gather.panel_row[at] = static_cast<std::uint16_t>(zero_row_ + idle_bank);
  }
  phases_ += std::max(1, *std::max_element(readers.begin(), readers.end()));
}

Gather TaskSchedule::next() {
  Gather gather{};
  for (int phase = 0; phase < kWarpLanes / kPhaseLanes; ++phase) fill_phase(phase, gather);
  return gather;
}

}  // namespace sparsmith::panel
