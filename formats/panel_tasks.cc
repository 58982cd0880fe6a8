#include "formats/panel_tasks.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/ceil_div.h"
#include "formats/loads.h"

namespace sparsmith::panel {
namespace {

constexpr std::int64_t kMostSegments = 256;  // of a row
constexpr int kCandidates = 24;              // segments among which a partner is looked for
constexpr std::uint64_t kLengthCost = 250;   // of a partner that is shorter by one, whose lane idles
constexpr std::int64_t kLengthSteps = 24;    // lengths tried in an octave, about
constexpr std::int64_t kTaskCost = 2;        // of ending a task, in gathers

using BankCounts = std::array<std::uint32_t, kPhaseLanes>;

// Makes the segments of a part, each row's dealt such that all of them have entries in every bank.
class Segmenter {
 public:
  Segmenter(const CsrMatrix& matrix, const PanelPacking& packing, std::int64_t first_column, PartTasks& part)
      : matrix_(matrix), packing_(packing), first_column_(first_column), part_(part) {}

  // Rows [first_row, last_row) of the matrix.
  void run(std::int64_t first_row, std::int64_t last_row, int step_entries) {
    const auto columns = matrix_.column_indices.begin();
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;  // entries of each row
    for (std::int64_t row = first_row; row < last_row; ++row) {
      const auto begin = columns + matrix_.row_offsets[row];
      const auto end = columns + matrix_.row_offsets[row + 1];
      const auto first = std::lower_bound(begin, end, first_column_);
      const auto last = std::lower_bound(first, end, first_column_ + packing_.width(matrix_.cols));
      ranges.emplace_back(first - columns, last - columns);
    }
    segment_length_ = packing_.segment_length;
    if (!packing_.adds()) choose_length(ranges, step_entries);
    for (std::size_t row = 0; row < ranges.size(); ++row)
      add_row(static_cast<std::uint32_t>(row), ranges[row].first, ranges[row].second);
  }

  std::vector<Segment> segments;

 private:
  std::int64_t pieces_of(std::int64_t length, std::int64_t segment_length) const {
    return std::min(std::max(ceil_div(length, segment_length), segment_count(length, packing_)), kMostSegments);
  }

  // The segment length, up to the packing's, with which tasks of equally long segments have the least to do.
  void choose_length(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& ranges, int step_entries) {
    const std::int64_t a_step = std::int64_t{packing_.segment_lanes} * step_entries;
    const std::int64_t a_task = packing_.segments();
    const std::int64_t most = packing_.max_slots - cut_slots(packing_) - staged_slots(std::ssize(ranges), packing_);
    std::int64_t least = 0;
    std::vector<std::int64_t> counts;  // of segments, by length
    for (std::int64_t length = packing_.segment_length; length >= a_step; length -= 1 + length / kLengthSteps) {
      counts.assign(length + 1, 0);
      std::int64_t slots = 0;
      for (const auto& [first, last] : ranges) {
        const std::int64_t pieces = pieces_of(last - first, length);
        slots += slot_count(pieces, packing_);
        if (pieces == 0) continue;
        const std::size_t longest = ceil_div(last - first, pieces);
        if (longest >= counts.size()) counts.resize(longest + 1);  // a row in kMostSegments pieces
        counts[longest] += pieces;
      }
      if (length < packing_.segment_length && slots > most) break;
      std::int64_t cost = 0;    // in gathers
      std::int64_t longer = 0;  // segments
      for (auto of_length = std::ssize(counts) - 1; of_length >= 0; --of_length) {
        const std::int64_t with = longer + counts[of_length];
        const std::int64_t tasks = ceil_div(with, a_task) - ceil_div(longer, a_task);  // whose longest these are
        cost += tasks * (ceil_div(of_length, a_step) * step_entries + kTaskCost);
        longer = with;
      }
      if (least == 0 || cost < least) {
        least = cost;
        segment_length_ = length;
      }
    }
  }

  void add_row(std::uint32_t row_of_part, std::uint32_t first, std::uint32_t last) {
    const std::int64_t length = last - first;
    const std::int64_t pieces = pieces_of(length, segment_length_);
    if (pieces == 0) return;
    sort_by_bank(first, last);
    std::uint32_t start = static_cast<std::uint32_t>(part_.entries.size());
    starts_.clear();
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const auto of_piece = static_cast<std::uint32_t>(length / pieces + (piece < length % pieces ? 1 : 0));
      starts_.push_back(start);
      segments.push_back({row_of_part, start, of_piece});
      start += of_piece;
    }
    part_.entries.resize(start);
    std::size_t piece = 0;
    for (const std::uint32_t entry : sorted_) {
      part_.entries[starts_[piece]++] = entry;
      piece = piece + 1 == starts_.size() ? 0 : piece + 1;
    }
  }

  // Entries [first, last), in order of their banks, to sorted_.
  void sort_by_bank(std::uint32_t first, std::uint32_t last) {
    sorted_.resize(last - first);
    if (packing_.gathers()) {
      std::iota(sorted_.begin(), sorted_.end(), first);
      return;
    }
    std::array<std::uint32_t, kPhaseLanes> next{};
    for (std::uint32_t entry = first; entry < last; ++entry) ++next[bank(entry)];
    std::exclusive_scan(next.begin(), next.end(), next.begin(), 0U);
    for (std::uint32_t entry = first; entry < last; ++entry) sorted_[next[bank(entry)]++] = entry;
  }
  int bank(std::uint32_t entry) const { return bank_of(matrix_, packing_, entry, first_column_); }

  const CsrMatrix& matrix_;
  const PanelPacking& packing_;
  std::int64_t first_column_;
  PartTasks& part_;
  std::int64_t segment_length_ = 0;
  std::vector<std::uint32_t> sorted_;  // entries of a row
  std::vector<std::uint32_t> starts_;  // of its segments, what is next
};

// Orders segments such that each 8 in turn are about equally long and complement one another's banks; long ones first.
class Grouping {
 public:
  Grouping(const CsrMatrix& matrix, const PanelPacking& packing, std::int64_t first_column, const PartTasks& part,
           std::vector<Segment>& segments)
      : segments_(segments), counts_(segments.size()), used_(segments.size(), false) {
    sort_by_length(segments);
    for (std::size_t s = 0; s < segments.size(); ++s) {
      counts_[s].fill(0);
      for (std::uint32_t i = 0; i < segments[s].length; ++i)
        ++counts_[s][bank_of(matrix, packing, part.entries[segments[s].first + i], first_column)];
    }
  }

  void run() {
    std::vector<std::vector<Segment>> groups;
    std::size_t left = segments_.size();
    while (left > 0) {
      std::vector<Segment>& group = groups.emplace_back();
      BankCounts sums{};
      while (left > 0 && group.size() < kPhaseLanes) {
        const std::size_t chosen = best_partner(sums);
        used_[chosen] = true;
        --left;
        std::ranges::transform(sums, counts_[chosen], sums.begin(), std::plus<>());
        group.push_back(segments_[chosen]);
      }
    }
    // A group that is not full comes last: only whole ones keep their lanes together.
    const auto whole = groups.end() - (groups.empty() || groups.back().size() == kPhaseLanes ? 0 : 1);
    const auto longest = [](const std::vector<Segment>& group) {
      return std::ranges::max_element(group, {}, &Segment::length)->length;
    };
    std::stable_sort(groups.begin(), whole, [&](const auto& a, const auto& b) { return longest(a) > longest(b); });
    segments_.clear();
    for (const auto& group : groups) segments_.insert(segments_.end(), group.begin(), group.end());
  }

 private:
  // Among the longest that are left, the one that fills the banks most evenly.
  std::size_t best_partner(const BankCounts& sums) {
    while (used_[first_left_]) ++first_left_;
    std::size_t best = first_left_;
    std::uint64_t least = ~std::uint64_t{0};
    int seen = 0;
    for (std::size_t s = first_left_; s < segments_.size() && seen < kCandidates; ++s) {
      if (used_[s]) continue;
      ++seen;
      std::uint64_t squares = 0;
      for (std::size_t bank = 0; bank < sums.size(); ++bank) {
        const std::uint64_t filled = sums[bank] + counts_[s][bank];
        squares += filled * filled;
      }
      // Shorter ones have smaller squares and leave lanes idle: the comparison is with an even filling of their length.
      std::uint64_t total = segments_[s].length;
      for (const std::uint32_t sum : sums) total += sum;
      const std::uint64_t excess = squares * kPhaseLanes - total * total +
                                   std::uint64_t{segments_[first_left_].length - segments_[s].length} * kLengthCost;
      if (excess < least) {
        least = excess;
        best = s;
      }
    }
    return best;
  }

  std::vector<Segment>& segments_;
  std::vector<BankCounts> counts_;
  std::vector<bool> used_;
  std::size_t first_left_ = 0;
};

// Deals tasks to shares of equal length; a task that meets the end of a share is cut in two.
class Dealing {
 public:
  Dealing(const PanelPacking& packing, int step_entries, PartTasks& part)
      : per_step_(static_cast<std::uint32_t>(packing.segment_lanes * step_entries)), part_(part) {}

  void run(std::vector<Task> tasks) {
    std::uint64_t total = 0;
    for (const Task& task : tasks) total += task.steps;
    const auto shares = static_cast<std::uint64_t>(part_.shares.size());
    const auto share_steps = static_cast<std::uint32_t>((total + shares - 1) / shares);
    part_.most_steps = share_steps;
    std::size_t share = 0;
    std::uint32_t room = share_steps;
    for (Task& task : tasks) {
      while (task.steps > room) {
        part_.shares[share++].push_back(cut(task, room));
        room = share_steps;
      }
      room -= task.steps;
      part_.shares[share].push_back(std::move(task));
      if (room == 0) {
        ++share;
        room = share_steps;
      }
    }
  }

 private:
  // The first `steps` steps of a task become one of their own: of each segment its part of every bank.
  Task cut(Task& task, std::uint32_t steps) {
    Task head;
    head.steps = steps;
    const std::uint32_t rest = task.steps - steps;
    for (Segment& segment : task.segments) {
      const std::uint64_t length = segment.length;
      std::uint64_t taken = (length * steps + task.steps / 2) / task.steps;
      taken = std::max(taken, length - std::min<std::uint64_t>(length, std::uint64_t{rest} * per_step_));
      taken = std::min({taken, length, std::uint64_t{steps} * per_step_});
      separate(std::span(part_.entries).subspan(segment.first, segment.length), taken);
      head.segments.push_back({segment.row, segment.first, static_cast<std::uint32_t>(taken)});
      segment.first += static_cast<std::uint32_t>(taken);
      segment.length -= static_cast<std::uint32_t>(taken);
    }
    task.steps = rest;
    return head;
  }

  // Moves `taken` of the entries, evenly spread, in front of the others.
  void separate(std::span<std::uint32_t> entries, std::uint64_t taken) {
    others_.clear();
    std::size_t to = 0;
    std::uint64_t sum = 0;  // `taken` for each entry, less the number of entries for each that is taken
    for (const std::uint32_t entry : entries) {
      sum += taken;
      if (sum >= entries.size()) {
        sum -= entries.size();
        entries[to++] = entry;
      } else {
        others_.push_back(entry);
      }
    }
    std::ranges::copy(others_, entries.begin() + static_cast<std::ptrdiff_t>(to));
  }

  std::uint32_t per_step_;  // entries of a segment a step
  PartTasks& part_;
  std::vector<std::uint32_t> others_;
};

// Deals whole tasks to shares, the longest to the one with the least to do (Graham, 1969).
void deal_whole(std::vector<Task> tasks, PartTasks& part) {
  std::ranges::stable_sort(tasks, std::greater<>(), &Task::steps);
  Loads loads(std::ssize(part.shares));
  for (Task& task : tasks) part.shares[loads.give(task.steps)].push_back(std::move(task));
  part.most_steps = static_cast<std::uint32_t>(loads.most());
}

// Gives every segment a slot of its row, which has `row_segments` of them.
void number_added_slots(PartTasks& part, std::span<const std::uint16_t> row_segments) {
  std::vector<std::uint32_t> next{0};
  for (const std::uint16_t segments : row_segments) next.push_back(next.back() + segments);
  part.slot_count = next.back();
  part.row_slots.assign(next.begin(), next.end());
  for (auto& share : part.shares)
    for (Task& task : share)
      for (Segment& segment : task.segments)
        if (segment.length > 0) segment.slot = static_cast<std::uint16_t>(next[segment.row]++);
}

// Gives every segment its slot, a row's in the order in which they stand, or with `whole_rows` its row.
void number_slots(PartTasks& part, std::int64_t rows, bool whole_rows) {
  std::vector<std::uint32_t> next(rows + 1);
  const auto each_segment = [&](const auto& visit) {
    for (auto& share : part.shares)
      for (Task& task : share)
        for (Segment& segment : task.segments)
          if (segment.length > 0) visit(segment);
  };
  each_segment([&](const Segment& segment) { ++next[segment.row + 1]; });
  std::vector<bool> whole(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    whole[row] = whole_rows && next[row + 1] == 1;
    next[row + 1] = next[row] + (whole[row] ? 0 : next[row + 1]);
  }
  part.slot_count = next.back();
  part.row_slots.assign(next.begin(), next.end());
  for (std::size_t row = 0; row < whole.size(); ++row)
    if (whole[row]) part.row_slots[row] |= kWholeRow;
  each_segment([&](Segment& segment) {
    segment.slot = static_cast<std::uint16_t>(whole[segment.row] ? kWholeRow | segment.row : next[segment.row]++);
  });
}

}  // namespace

std::int64_t segment_count(std::int64_t length, const PanelPacking& packing) {
  return std::min((length + packing.segment_length - 1) / packing.segment_length, kMostSegments);
}

std::vector<std::int64_t> part_bounds(std::span<const std::int64_t> row_offsets, const PanelPacking& packing,
                                      std::span<const std::uint16_t> row_segments, std::int64_t most_parts) {
  constexpr std::int64_t kRowCost = 4;  // of a row beside its nonzeros, in nonzeros
  const std::int64_t rows = std::ssize(row_offsets) - 1;
  const auto slots_of = [&](std::int64_t row) {
    if (packing.adds()) return std::int64_t{row_segments[row]};
    return slot_count(segment_count(row_offsets[row + 1] - row_offsets[row], packing), packing);
  };
  const std::int64_t of_cuts = cut_slots(packing);
  const auto cost_before = [&](std::int64_t row) { return row_offsets[row] + row * kRowCost; };
  for (std::int64_t loops = 1;; loops += 1 + loops / 8) {
    const std::int64_t parts = packing.row_parts * loops;
    if (parts > most_parts) return {};
    std::vector<std::int64_t> bounds{0};
    bool fits = true;
    std::int64_t row = 0;
    for (std::int64_t part = 1; part <= parts; ++part) {
      const auto target = static_cast<std::int64_t>(static_cast<double>(cost_before(rows)) * static_cast<double>(part) /
                                                    static_cast<double>(parts));
      std::int64_t slots = of_cuts;
      const std::int64_t first_row = row;
      // A row belongs to the part in which its middle lies.
      for (; row < rows && (part == parts || cost_before(row) + cost_before(row + 1) < 2 * target); ++row)
        slots += slots_of(row);
      slots += staged_slots(row - first_row, packing);
      fits = fits && (slots <= packing.max_slots || row - bounds.back() <= 1) &&
             (!packing.whole_rows() || row - bounds.back() <= kMostWholeRows);
      bounds.push_back(row);
    }
    if (fits) return bounds;
  }
}

PartTasks make_tasks(const CsrMatrix& matrix, const PanelPacking& packing, int step_entries, std::int64_t first_row,
                     std::int64_t last_row, std::int64_t first_column, std::span<const std::uint16_t> row_segments) {
  PartTasks part;
  part.shares.resize(packing.warps);
  Segmenter segmenter(matrix, packing, first_column, part);
  segmenter.run(first_row, last_row, step_entries);
  std::vector<Segment>& segments = segmenter.segments;
  if (packing.sweep_columns > 0) {
    sweep(matrix, packing, step_entries, last_row - first_row, std::move(segments), part);
    return part;
  }
  if (packing.gathers()) {
    sort_by_length(segments);
  } else {
    Grouping(matrix, packing, first_column, part, segments).run();
  }

  const std::size_t a_task = packing.segments();
  const auto a_step = static_cast<std::uint32_t>(packing.segment_lanes * step_entries);
  std::vector<Task> tasks;
  for (std::size_t first = 0; first < segments.size(); first += a_task) {
    Task& task = tasks.emplace_back();
    task.segments.resize(a_task);
    for (std::size_t lane = 0; lane < a_task && first + lane < segments.size(); ++lane) {
      const Segment& segment = segments[first + lane];
      const int place = segment_of_lane(packing.order, packing.segments(), static_cast<int>(lane));
      task.segments[place] = segment;
      task.steps = std::max(task.steps, (segment.length + a_step - 1) / a_step);
    }
  }
  if (packing.adds()) {
    deal_whole(std::move(tasks), part);
    number_added_slots(part, row_segments.subspan(first_row, last_row - first_row));
    return part;
  }
  Dealing(packing, step_entries, part).run(std::move(tasks));
  number_slots(part, last_row - first_row, packing.whole_rows());
  return part;
}

}  // namespace sparsmith::panel
