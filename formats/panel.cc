#include "formats/panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/half.h"
#include "base/parallel_for.h"
#include "formats/panel_schedule.h"
#include "formats/panel_words.h"

namespace sparsmith {
namespace {

using panel::kMostSlots;
using panel::kStepWords;
using panel::kWarpLanes;
using panel::kWordsPerLane;
using panel::step_entries;
using panel::words_per_entry;

constexpr std::int64_t kRowCost = 4;  // of a row beside its nonzeros, in nonzeros

Status check(const CsrMatrix& matrix, const PanelPacking& packing, DataType type) {
  if (type != DataType::kFloat32 && type != DataType::kFloat16 && type != DataType::kBFloat16)
    return invalid_argument(fmt::format("panel: values are fp32, fp16 or bf16, not {}", short_name(type)));
  if (packing.segment_lanes != 1 && packing.segment_lanes != 2 && packing.segment_lanes != 4)
    return invalid_argument(fmt::format("panel: 1, 2 or 4 lanes a segment, not {}", packing.segment_lanes));
  if (packing.row_parts < 1 || packing.column_parts < 1 || packing.warps < 1 || packing.segment_length < 1)
    return invalid_argument("panel: parts, warps and segment length are at least 1");
  if (packing.max_slots < least_slots(packing) || packing.max_slots > kMostSlots)
    return invalid_argument(
        fmt::format("panel: {} slots, not one of [{}, {}]", packing.max_slots, least_slots(packing), kMostSlots));
  if (packing.width(matrix.cols) > panel::kMostRows - panel::kZeroRows)
    return invalid_argument(
        fmt::format("panel: K = {} in {} parts exceeds 16-bit columns", matrix.cols, packing.column_parts));
  if (matrix.rows >= (std::int64_t{1} << 31) || matrix.nnz() >= (std::int64_t{1} << 32))
    return invalid_argument(
        fmt::format("panel: {} rows with {} nonzeros exceed 32-bit offsets", matrix.rows, matrix.nnz()));
  return {};
}

// The rows at which parts begin, and the end: [parts + 1]. Parts have about equal cost, and sums that fit.
std::vector<std::int64_t> part_bounds(const CsrMatrix& matrix, const PanelPacking& packing) {
  // A share that begins in the middle of a task begins a slot for each of its segments.
  const std::int64_t cut_slots = std::int64_t{packing.warps} * packing.segments();
  const auto cost_before = [&](std::int64_t row) { return matrix.row_offsets[row] + row * kRowCost; };
  for (std::int64_t loops = 1;; loops += 1 + loops / 8) {
    const std::int64_t parts = packing.row_parts * loops;
    std::vector<std::int64_t> bounds{0};
    bool fits = true;
    std::int64_t row = 0;
    for (std::int64_t part = 1; part <= parts; ++part) {
      const auto target = static_cast<std::int64_t>(static_cast<double>(cost_before(matrix.rows)) *
                                                    static_cast<double>(part) / static_cast<double>(parts));
      std::int64_t slots = cut_slots;
      // A row belongs to the part in which its middle lies.
      for (; row < matrix.rows && (part == parts || cost_before(row) + cost_before(row + 1) < 2 * target); ++row)
        slots += panel::segment_count(matrix.row_length(row), packing);
      fits = fits && (slots <= packing.max_slots || row - bounds.back() <= 1);
      bounds.push_back(row);
    }
    if (fits) return bounds;
  }
}

std::uint32_t value_bits(float value, DataType type) {
  switch (type) {
    case DataType::kFloat16: return fp16_from_float(value);
    case DataType::kBFloat16: return bf16_from_float(value);
    default: return std::bit_cast<std::uint32_t>(value);
  }
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
      : matrix_(matrix), packing_(packing), type_(type), width_(packing.width(matrix.cols)) {}

  PackedWeight pack() {
    bounds_ = part_bounds(matrix_, packing_);
    parts_ = static_cast<std::int64_t>(bounds_.size()) - 1;
    make_parts();
    write_descriptors();
    write_entries();
    PackedWeight packed;
    packed.packing = packing_.name();
    packed.rows = matrix_.rows;
    packed.cols = matrix_.cols;
    packed.nnz = matrix_.nnz();
    packed.value_type = type_;
    for (PackedArray* array : {&entries_, &shares_, &task_slots_, &part_array_, &row_slots_})
      packed.arrays.push_back(std::move(*array));
    const std::int64_t stored = steps_ * kWarpLanes * step_entries(type_);
    const std::int64_t share_count = parts_ * packing_.column_parts * packing_.warps;
    packed.facts = {{"parts", parts_},
                    {"column_parts", packing_.column_parts},
                    {"width", width_},
                    {"warps", packing_.warps},
                    {"segments", packing_.segments()},
                    {"tensor", packing_.order == panel::LaneOrder::kTensor ? 1 : 0},
                    {"share_steps", share_steps_},
                    {"steps", steps_},
                    {"slots", slots_},
                    {"padding", stored - matrix_.nnz()},
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
            panel::make_tasks(matrix_, packing_, step_entries(type_), bounds_[static_cast<std::size_t>(part)],
                              bounds_[static_cast<std::size_t>(part) + 1], i / parts_ * width_);
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
                       static_cast<unsigned>(bounds_[row_part + 1] - bounds_[row_part]), offset, part.row_slots.back()};
      row_slots = std::copy(part.row_slots.begin(), part.row_slots.end(), row_slots);
      offset += static_cast<std::uint32_t>(part.row_slots.size());
      slots_ = std::max<std::int64_t>(slots_, part.row_slots.back());
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
    entries_ =
        zeroed<std::uint32_t>("entries", DataType::kUint32,
                              static_cast<std::size_t>((share_count * share_steps_ + panel::kSpareSteps) * kStepWords));
    parallel_for(share_count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t share = begin; share < end; ++share) write_share(share);
    });
  }

  void write_share(std::int64_t share) {
    const panel::PartTasks& part = work_[static_cast<std::size_t>(share / packing_.warps)];
    const std::int64_t first_column = share / packing_.warps / parts_ * width_;
    std::uint32_t* to = elements<std::uint32_t>(entries_) + share * share_steps_ * kStepWords;
    for (const panel::Task& task : part.shares[static_cast<std::size_t>(share % packing_.warps)]) {
      panel::TaskSchedule schedule(matrix_, packing_, part.entries, task, step_entries(type_), first_column);
      for (std::uint32_t step = 0; step < task.steps; ++step, to += kStepWords)
        for (int e = 0; e < step_entries(type_); ++e) write_gather(schedule.next(), e, to);
      for (int lane = 0; lane < kWarpLanes && task.steps > 0; ++lane)
        to[lane * kWordsPerLane - kStepWords] |= panel::kTaskEnd;
      phases_ += schedule.phases();
    }
  }

  void write_gather(const panel::Gather& gather, int e, std::uint32_t* step) const {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const std::int64_t entry = gather.entry[panel::value_lane(packing_.order, lane)];
      const std::uint32_t bits = entry < 0 ? 0 : value_bits(matrix_.values[static_cast<std::size_t>(entry)], type_);
      std::uint32_t* words = step + lane * kWordsPerLane + e * words_per_entry(type_);
      words[0] = gather.panel_row[lane];
      if (words_per_entry(type_) == 1) {
        words[0] |= bits << 16;
      } else {
        words[1] = bits;
      }
    }
  }

  const CsrMatrix& matrix_;
  const PanelPacking& packing_;
  DataType type_;
  std::int64_t width_;
  std::int64_t parts_ = 0;
  std::int64_t share_steps_ = 1;
  std::int64_t steps_ = 0;
  std::int64_t slots_ = 0;
  std::atomic<std::int64_t> phases_ = 0;
  std::vector<std::int64_t> bounds_;
  std::vector<panel::PartTasks> work_;  // [column_parts][parts]
  PackedArray entries_, shares_, task_slots_, part_array_, row_slots_;
};

}  // namespace

std::int64_t PanelPacking::width(std::int64_t cols) const {
  return std::max<std::int64_t>(8, ((cols + column_parts - 1) / column_parts + 7) / 8 * 8);
}

std::string PanelPacking::name() const {
  return fmt::format("panel_r{}_k{}_w{}_t{}_l{}_s{}_{}", row_parts, column_parts, warps, segment_lanes, segment_length,
                     max_slots, order == panel::LaneOrder::kTensor ? "tensor" : "plain");
}

int least_slots(const PanelPacking& packing) { return 256 + packing.warps * packing.segments(); }

Result<PackedWeight> pack_panel(const CsrMatrix& matrix, const PanelPacking& packing, DataType type) {
  SPARSMITH_RETURN_IF_ERROR(check(matrix, packing, type));
  return Packer(matrix, packing, type).pack();
}

}  // namespace sparsmith
