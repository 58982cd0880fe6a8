#include "formats/panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/enum_names.h"
#include "base/parallel_for.h"
#include "formats/panel_schedule.h"
#include "formats/panel_words.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

using panel::kWarpLanes;

// Of each row, where sums are added: segments in the column part where they are most.
std::vector<std::uint16_t> segments_of_rows(const CsrMatrix& matrix, const PanelPacking& packing) {
  std::vector<std::uint16_t> segments(packing.adds() ? matrix.rows : 0);
  const std::int64_t width = packing.width(matrix.cols);
  const auto count_row = [&](std::int64_t row) {
    auto first = matrix.column_indices.begin() + matrix.row_offsets[row];
    const auto last = matrix.column_indices.begin() + matrix.row_offsets[row + 1];
    std::uint16_t& most = segments[row];
    for (std::int64_t next = width; first != last; next += width) {
      const auto behind = std::lower_bound(first, last, next);
      most = std::max(most, static_cast<std::uint16_t>(panel::segment_count(behind - first, packing)));
      first = behind;
    }
  };
  parallel_each(std::ssize(segments), count_row, 1024);
  return segments;
}

template <class T>
PackedArray zeroed(std::string name, DataType type, std::size_t count) {
  return {std::move(name), type, std::vector<std::byte>(count * sizeof(T))};
}
template <class T>
T* elements(PackedArray& array) {
  return reinterpret_cast<T*>(array.bytes.data());
}

class Packer {
 public:
  Packer(const CsrMatrix& matrix, const PanelPacking& packing, DataType type)
      : matrix_(matrix),
        packing_(packing),
        type_(type),
        words_(panel::step_words(type, packing.token_lanes, matrix.cols)),
        width_(packing.width(matrix.cols)) {}

  void pack(PackedWeight& packed) {
    row_segments_ = segments_of_rows(matrix_, packing_);
    bounds_ =
        panel::part_bounds(matrix_.row_offsets, packing_, row_segments_, std::numeric_limits<std::int64_t>::max());
    parts_ = std::ssize(bounds_) - 1;
    make_parts();
    write_descriptors();
    write_entries();
    for (PackedArray* array : {&entries_, &shares_, &task_slots_, &part_array_, &row_slots_})
      packed.arrays.push_back(std::move(*array));
    const std::int64_t stored = steps_ * words_.lanes * words_.entries();
    if (packing_.gathers()) phases_ = stored / panel::kPhaseLanes;  // no banks to meet in
    const std::int64_t share_count = parts_ * packing_.column_parts * packing_.warps;
    packed.facts = panel::facts_of(packing_, matrix_.cols);
    packed.facts.merge(Facts{{"parts", parts_},
                             {"share_steps", share_steps_},
                             {"steps", steps_},
                             {"slots", slots_},
                             {"rows", part_rows_},
                             {"padding", stored - matrix_.nnz()},
                             {"unread_bytes", (share_count * share_steps_ - steps_) * words_.step() * 4},
                             {"phases_permille", stored == 0 ? 1000 : phases_ * 1000 * panel::kPhaseLanes / stored},
                             {"balance_permille", steps_ == 0 ? 1000 : share_steps_ * share_count * 1000 / steps_}});
  }

 private:
  void make_parts() {
    work_.resize(parts_ * packing_.column_parts);
    parallel_each(std::ssize(work_), [&](std::int64_t i) {
      const std::int64_t part = i % parts_;
      work_[i] = panel::make_tasks(matrix_, packing_, words_.entries(), bounds_[part], bounds_[part + 1],
                                   i / parts_ * width_, row_segments_);
    });
  }

  void write_descriptors() {
    std::size_t tasks = 0;
    for (const panel::PartTasks& part : work_) {
      share_steps_ = std::max<std::int64_t>(share_steps_, part.most_steps);
      for (const auto& share : part.shares) tasks += share.size();
    }
    const std::size_t segments = packing_.segments();
    shares_ = zeroed<panel::Share>("shares", DataType::kUint32, work_.size() * packing_.warps);
    part_array_ = zeroed<panel::Part>("parts", DataType::kUint32, work_.size());
    task_slots_ = zeroed<std::uint16_t>("task_slots", DataType::kUint16, (tasks + 1) * segments);
    row_slots_ = zeroed<std::uint16_t>("row_slots", DataType::kUint16, (matrix_.rows + parts_) * packing_.column_parts);
    auto* share = elements<panel::Share>(shares_);
    auto* part_entry = elements<panel::Part>(part_array_);
    auto* slots = elements<std::uint16_t>(task_slots_);
    auto* row_slots = elements<std::uint16_t>(row_slots_);
    std::uint32_t task_index = 0;
    std::uint32_t offset = 0;
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const panel::PartTasks& part = work_[i];
      const std::size_t row_part = i % parts_;
      *part_entry++ = {static_cast<unsigned>(bounds_[row_part]),
                       static_cast<unsigned>(bounds_[row_part + 1] - bounds_[row_part]), offset, part.slot_count};
      row_slots = std::copy(part.row_slots.begin(), part.row_slots.end(), row_slots);
      offset += static_cast<std::uint32_t>(part.row_slots.size());
      slots_ = std::max<std::int64_t>(slots_, part.slot_count);
      part_rows_ = std::max(part_rows_, bounds_[row_part + 1] - bounds_[row_part]);
      for (const auto& tasks_of_share : part.shares) {
        *share = {0, task_index};
        for (const panel::Task& task : tasks_of_share) {
          share->step_count += task.steps;
          for (const panel::Segment& segment : task.segments) *slots++ = segment.slot;
          ++task_index;
        }
        steps_ += share->step_count;
        ++share;
      }
    }
    std::fill_n(slots, segments, static_cast<std::uint16_t>(panel::kNoSlot));
  }

  void write_entries() {
    const auto share_count = static_cast<std::int64_t>(work_.size()) * packing_.warps;
    entries_ = zeroed<std::uint32_t>("entries", DataType::kUint32,
                                     (share_count * share_steps_ + panel::kSpareSteps) * words_.step());
    parallel_each(share_count, [&](std::int64_t share) { write_share(share); });
  }

  void write_share(std::int64_t share) {
    const panel::PartTasks& part = work_[share / packing_.warps];
    const std::int64_t first_column = share / packing_.warps / parts_ * width_;
    std::uint32_t* to = elements<std::uint32_t>(entries_) + share * share_steps_ * words_.step();
    for (const panel::Task& task : part.shares[share % packing_.warps]) {
      if (packing_.gathers()) {
        for (std::uint32_t step = 0; step < task.steps; ++step, to += words_.step())
          write_in_turn(part, task, step, to);
      } else {
        panel::TaskSchedule schedule(matrix_, packing_, part.entries, task, words_.entries(), first_column);
        for (std::uint32_t step = 0; step < task.steps; ++step, to += words_.step())
          for (int e = 0; e < words_.entries(); ++e) write_gather(schedule.next(), e, to);
        phases_ += schedule.phases();
      }
      if (task.steps > 0) words_.end_task(to - words_.step());
    }
  }

  // A step of a task whose entries nobody schedules: its segments' lanes take them in turn.
  void write_in_turn(const panel::PartTasks& part, const panel::Task& task, std::uint32_t step,
                     std::uint32_t* to) const {
    for (int lane = 0; lane < words_.lanes; ++lane) {
      const panel::Segment& segment = task.segments[lane % packing_.segments()];
      for (int e = 0; e < words_.entries(); ++e) {
        const std::uint32_t turn = step * static_cast<std::uint32_t>(words_.entries() * packing_.segment_lanes) +
                                   static_cast<std::uint32_t>(e * packing_.segment_lanes + lane / packing_.segments());
        if (turn < segment.length) {
          const std::uint32_t entry = part.entries[segment.first + turn];
          words_.write(to, lane, e, matrix_.column_indices[entry], bits_of(entry));
        } else {
          words_.write(to, lane, e, static_cast<std::uint32_t>(matrix_.cols), 0);
        }
      }
    }
  }

  void write_gather(const panel::Gather& gather, int e, std::uint32_t* step) const {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const std::int64_t entry = gather.entry[panel::value_lane(packing_.order, lane)];
      words_.write(step, lane, e, gather.panel_row[lane], bits_of(entry));
    }
  }

  // As stored. entry: a nonzero of the matrix, or -1.
  std::uint32_t bits_of(std::int64_t entry) const { return entry < 0 ? 0 : value_bits(matrix_.values[entry], type_); }

  const CsrMatrix& matrix_;
  const PanelPacking& packing_;
  DataType type_;
  panel::StepWords words_;
  std::int64_t width_;
  std::int64_t parts_ = 0;
  std::int64_t share_steps_ = 1;
  std::int64_t steps_ = 0;
  std::int64_t slots_ = 0;
  std::int64_t part_rows_ = 0;
  std::atomic<std::int64_t> phases_ = 0;
  std::vector<std::uint16_t> row_segments_;  // where sums are added
  std::vector<std::int64_t> bounds_;
  std::vector<panel::PartTasks> work_;  // [column_parts][parts]
  PackedArray entries_, shares_, task_slots_, part_array_, row_slots_;
};

}  // namespace

std::int64_t PanelPacking::width(std::int64_t cols) const {
  return std::max<std::int64_t>(8, ((cols + column_parts - 1) / column_parts + 7) / 8 * 8);
}

std::string PanelPacking::name() const {
  constexpr std::string_view kOrderNames[] = {"plain", "tensor", "sparse"};
  const std::string how = gathers() ? fmt::format("gather{}", token_lanes) +
                                          (sweep_columns > 0 ? fmt::format("_sweep{}", sweep_columns) : "")
                                    : fmt::format("{}{}{}", name_in(kOrderNames, order), turned ? "_turned" : "",
                                                  adds()         ? "_added"
                                                  : staged()     ? "_staged"
                                                  : whole_rows() ? "_rows"
                                                                 : "");
  return fmt::format("panel_r{}_k{}_w{}_t{}_l{}_s{}_{}", row_parts, column_parts, warps, segment_lanes, segment_length,
                     max_slots, how);
}

int least_slots(const PanelPacking& packing) {
  return static_cast<int>(256 + panel::cut_slots(packing) + panel::staged_slots(1, packing));
}

Facts panel::facts_of(const PanelPacking& packing, std::int64_t cols) {
  return {{"column_parts", packing.column_parts},
          {"width", packing.width(cols)},
          {"warps", packing.warps},
          {"segments", packing.segments()},
          {"lane_order", static_cast<std::int64_t>(packing.order)},
          {"turned", packing.turned ? 1 : 0},
          {"row_store", static_cast<std::int64_t>(packing.row_store)},
          {"token_lanes", packing.token_lanes},
          {"sweep_columns", packing.sweep_columns}};
}

Status panel::pack(const CsrMatrix& matrix, const PanelPacking& packing, DataType type, PackedWeight& packed) {
  if (matrix.nnz() >= (std::int64_t{1} << 32))
    return invalid_argument(fmt::format("panel: {} nonzeros exceed 32-bit offsets", matrix.nnz()));
  Packer(matrix, packing, type).pack(packed);
  return {};
}

}  // namespace sparsmith
