#include "formats/panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

#include "base/parallel_for.h"
#include "base/plant.h"
#include "formats/panel_schedule.h"
#include "formats/panel_words.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

using panel::kWarpLanes;

Status check_panel(std::int64_t cols, const PanelPacking& packing) {
  if (packing.segment_lanes != 1 && packing.segment_lanes != 2 && packing.segment_lanes != 4)
    return invalid_argument(fmt::format("panel: 1, 2 or 4 lanes a segment, not {}", packing.segment_lanes));
  if (packing.column_parts < 1 || packing.width(cols) > panel::kMostRows - panel::kZeroRows)
    return invalid_argument(
        fmt::format("panel: K = {} in {} parts exceeds 16-bit columns", cols, packing.column_parts));
  if (packing.whole_rows() && packing.max_slots > panel::kMostWholeRows)
    return invalid_argument(
        fmt::format("panel: {} slots beside whole rows, of at most {}", packing.max_slots, panel::kMostWholeRows));
  return {};
}

Status check_gather(std::int64_t cols, const PanelPacking& packing) {
  const auto is_lanes = [](int lanes) { return lanes >= 1 && std::has_single_bit(static_cast<unsigned>(lanes)); };
  if (!is_lanes(packing.token_lanes) || packing.token_lanes > 8 || !is_lanes(packing.segment_lanes) ||
      packing.segment_lanes > packing.lanes())
    return invalid_argument(fmt::format("panel: {} token lanes and {} lanes a segment do not share out a warp",
                                        packing.token_lanes, packing.segment_lanes));
  if (packing.sweep_columns < 0 || packing.max_slots >= static_cast<int>(panel::kAddFlag))
    return invalid_argument(fmt::format("panel: sweeps of {} columns, {} slots of at most {}", packing.sweep_columns,
                                        packing.max_slots, panel::kAddFlag - 1));
  if (packing.column_parts != 1 || packing.order != panel::LaneOrder::kPlain ||
      packing.row_store != panel::RowStore::kSlots)
    return invalid_argument("panel: gathers from X take one column part and plain order, and all rows have slots");
  if (cols >= std::int64_t{panel::kWideTaskEnd})
    return invalid_argument(fmt::format("panel: K = {} exceeds 31-bit columns", cols));
  return {};
}

// Of each row, where sums are added: segments in the column part where they are most.
std::vector<std::uint16_t> segments_of_rows(const CsrMatrix& matrix, const PanelPacking& packing) {
  std::vector<std::uint16_t> segments(packing.adds() ? static_cast<std::size_t>(matrix.rows) : 0, 0);
  const std::int64_t width = packing.width(matrix.cols);
  parallel_for(std::ssize(segments), 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      auto first = matrix.column_indices.begin() + matrix.row_offsets[row];
      const auto last = matrix.column_indices.begin() + matrix.row_offsets[row + 1];
      std::uint16_t& most = segments[static_cast<std::size_t>(row)];
      for (std::int64_t next = width; first != last; next += width) {
        const auto behind = std::lower_bound(first, last, next);
        most = std::max(most, static_cast<std::uint16_t>(panel::segment_count(behind - first, packing)));
        first = behind;
      }
    }
  });
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

  PackedWeight pack() {
    row_segments_ = segments_of_rows(matrix_, packing_);
    bounds_ =
        panel::part_bounds(matrix_.row_offsets, packing_, row_segments_, std::numeric_limits<std::int64_t>::max());
    parts_ = static_cast<std::int64_t>(bounds_.size()) - 1;
    make_parts();
    write_descriptors();
    write_entries();
    PackedWeight packed;
    packed.packing = packing_.name();
    packed.packer_version = panel_packer_version(packing_);
    packed.rows = matrix_.rows;
    packed.cols = matrix_.cols;
    packed.nnz = matrix_.nnz();
    packed.value_type = type_;
    for (PackedArray* array : {&entries_, &shares_, &task_slots_, &part_array_, &row_slots_})
      packed.arrays.push_back(std::move(*array));
    const std::int64_t stored = steps_ * words_.lanes * words_.entries();
    if (packing_.gathers()) phases_ = stored / panel::kPhaseLanes;  // no banks to meet in
    const std::int64_t share_count = parts_ * packing_.column_parts * packing_.warps;
    packed.facts = {{"parts", parts_},
                    {"column_parts", packing_.column_parts},
                    {"width", width_},
                    {"warps", packing_.warps},
                    {"segments", packing_.segments()},
                    {"lane_order", static_cast<std::int64_t>(packing_.order)},
                    {"turned", packing_.turned || packing_.gathers() ? 1 : 0},
                    {"row_store", static_cast<std::int64_t>(packing_.row_store)},
                    {"token_lanes", packing_.token_lanes},
                    {"sweep_columns", packing_.sweep_columns},
                    {"share_steps", share_steps_},
                    {"steps", steps_},
                    {"slots", slots_},
                    {"rows", part_rows_},
                    {"padding", stored - matrix_.nnz()},
                    {"unread_bytes", (share_count * share_steps_ - steps_) * words_.step() * 4},
                    {"phases_permille", stored == 0 ? 1000 : phases_ * 1000 * panel::kPhaseLanes / stored},
                    {"balance_permille", steps_ == 0 ? 1000 : share_steps_ * share_count * 1000 / steps_}};
    return packed;
  }

 private:
  void make_parts() {
    work_.resize(static_cast<std::size_t>(parts_ * packing_.column_parts));
    parallel_for(static_cast<std::int64_t>(work_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t part = i % parts_;
        work_[static_cast<std::size_t>(i)] =
            panel::make_tasks(matrix_, packing_, words_.entries(), bounds_[static_cast<std::size_t>(part)],
                              bounds_[static_cast<std::size_t>(part) + 1], i / parts_ * width_, row_segments_);
      }
    });
  }

  void write_descriptors() {
    std::size_t tasks = 0;
    for (const panel::PartTasks& part : work_) {
      share_steps_ = std::max<std::int64_t>(share_steps_, part.most_steps);
      for (const auto& share : part.shares) tasks += share.size();
    }
    const auto segments = static_cast<std::size_t>(packing_.segments());
    shares_ =
        zeroed<panel::Share>("shares", DataType::kUint32, work_.size() * static_cast<std::size_t>(packing_.warps));
    part_array_ = zeroed<panel::Part>("parts", DataType::kUint32, work_.size());
    task_slots_ = zeroed<std::uint16_t>("task_slots", DataType::kUint16, (tasks + 1) * segments);
    row_slots_ = zeroed<std::uint16_t>("row_slots", DataType::kUint16,
                                       static_cast<std::size_t>((matrix_.rows + parts_) * packing_.column_parts));
    auto* share = elements<panel::Share>(shares_);
    auto* part_entry = elements<panel::Part>(part_array_);
    auto* slots = elements<std::uint16_t>(task_slots_);
    auto* row_slots = elements<std::uint16_t>(row_slots_);
    std::uint32_t task_index = 0;
    std::uint32_t offset = 0;
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const panel::PartTasks& part = work_[i];
      const std::size_t row_part = i % static_cast<std::size_t>(parts_);
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
    entries_ = zeroed<std::uint32_t>(
        "entries", DataType::kUint32,
        static_cast<std::size_t>((share_count * share_steps_ + panel::kSpareSteps) * words_.step()));
    parallel_for(share_count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t share = begin; share < end; ++share) write_share(share);
    });
  }

  void write_share(std::int64_t share) {
    const panel::PartTasks& part = work_[static_cast<std::size_t>(share / packing_.warps)];
    const std::int64_t first_column = share / packing_.warps / parts_ * width_;
    std::uint32_t* to = elements<std::uint32_t>(entries_) + share * share_steps_ * words_.step();
    for (const panel::Task& task : part.shares[static_cast<std::size_t>(share % packing_.warps)]) {
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
      const panel::Segment& segment = task.segments[static_cast<std::size_t>(lane % packing_.segments())];
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
  std::uint32_t bits_of(std::int64_t entry) const {
    return entry < 0 ? 0 : value_bits(matrix_.values[static_cast<std::size_t>(entry)], type_);
  }

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
  const std::string how =
      gathers()
          ? fmt::format("gather{}", token_lanes) + (sweep_columns > 0 ? fmt::format("_sweep{}", sweep_columns) : "")
          : fmt::format("{}{}{}", kOrderNames[static_cast<std::size_t>(order)], turned ? "_turned" : "",
                        adds()         ? "_added"
                        : staged()     ? "_staged"
                        : whole_rows() ? "_rows"
                                       : "");
  return fmt::format("panel_r{}_k{}_w{}_t{}_l{}_s{}_{}", row_parts, column_parts, warps, segment_lanes, segment_length,
                     max_slots, how);
}

int panel_packer_version(const PanelPacking& packing) {
  constexpr int kPlanted = 1000;  // so that no cache has it for another schedule
  if (packing.gathers()) return 4;
  return is_planted(Plant::kBankSchedule) ? 5 + kPlanted : 5;
}

int least_slots(const PanelPacking& packing) {
  return static_cast<int>(256 + panel::cut_slots(packing) + panel::staged_slots(1, packing));
}

Status check_panel_packing(const PanelPacking& packing, std::int64_t rows, std::int64_t cols, DataType type) {
  if (type != DataType::kFloat32 && type != DataType::kFloat16 && type != DataType::kBFloat16)
    return invalid_argument(fmt::format("panel: values are fp32, fp16 or bf16, not {}", short_name(type)));
  if (packing.staged() && size_of(type) != 2)
    return invalid_argument(fmt::format("panel: rows of {} wait in as much room as their sums", short_name(type)));
  SPARSMITH_RETURN_IF_ERROR(packing.gathers() ? check_gather(cols, packing) : check_panel(cols, packing));
  if (packing.row_parts < 1 || packing.column_parts < 1 || packing.warps < 1 || packing.segment_length < 1)
    return invalid_argument("panel: parts, warps and segment length are at least 1");
  if (packing.max_slots < least_slots(packing) || packing.max_slots > panel::kMostSlots)
    return invalid_argument(fmt::format("panel: {} slots, not one of [{}, {}]", packing.max_slots, least_slots(packing),
                                        panel::kMostSlots));
  if (rows >= (std::int64_t{1} << 31)) return invalid_argument(fmt::format("panel: {} rows exceed 31 bits", rows));
  return {};
}

Result<PackedWeight> pack_panel(const CsrMatrix& matrix, const PanelPacking& packing, DataType type) {
  SPARSMITH_RETURN_IF_ERROR(check_panel_packing(packing, matrix.rows, matrix.cols, type));
  if (matrix.nnz() >= (std::int64_t{1} << 32))
    return invalid_argument(fmt::format("panel: {} nonzeros exceed 32-bit offsets", matrix.nnz()));
  return Packer(matrix, packing, type).pack();
}

}  // namespace sparsmith
