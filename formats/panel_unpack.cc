// Reads the panel format back.
#include <fmt/format.h>

#include <optional>

#include "formats/panel.h"
#include "formats/panel_words.h"
#include "formats/unpacked_rows.h"

namespace sparsmith {
namespace {

using panel::kMostSlots;
using panel::kStepWords;
using panel::kWarpLanes;
using panel::kWordsPerLane;
using panel::step_entries;
using panel::words_per_entry;

Status missing(std::string_view array) {
  return invalid_input(fmt::format("panel: array '{}' is missing or has the wrong size", array));
}

// Reads a packed weight back, believing nothing that it says.
class Unpacker {
 public:
  explicit Unpacker(const PackedWeight& packed) : packed_(packed) {}

  Result<CsrMatrix> unpack() {
    SPARSMITH_RETURN_IF_ERROR(check_sizes());
    SPARSMITH_RETURN_IF_ERROR(check_parts());
    SPARSMITH_ASSIGN_OR_RETURN(rows_, UnpackedRows::create(packed_, std::ssize(row_slots_)));
    for (std::size_t i = 0; i < parts_.size(); ++i) SPARSMITH_RETURN_IF_ERROR(read_part(i));
    return std::move(*rows_).matrix();
  }

 private:
  std::int64_t fact(const char* name) const {
    const auto found = packed_.facts.find(name);
    return found == packed_.facts.end() ? -1 : found->second;
  }

  template <class T>
  Status array(const char* name, std::span<const T>& to) const {
    const PackedArray* found = packed_.array(name);
    if (found == nullptr || found->bytes.size() % sizeof(T) != 0) return missing(name);
    to = found->as<T>();
    return {};
  }

  Status check_sizes() {
    SPARSMITH_RETURN_IF_ERROR(array("entries", entries_));
    SPARSMITH_RETURN_IF_ERROR(array("shares", shares_));
    SPARSMITH_RETURN_IF_ERROR(array("task_slots", task_slots_));
    SPARSMITH_RETURN_IF_ERROR(array("parts", parts_));
    SPARSMITH_RETURN_IF_ERROR(array("row_slots", row_slots_));
    warps_ = fact("warps");
    segments_ = fact("segments");
    share_steps_ = fact("share_steps");
    width_ = fact("width");
    const std::int64_t column_parts = fact("column_parts");
    row_parts_ = fact("parts");
    if (warps_ < 1 || warps_ > 32 || (segments_ != 8 && segments_ != 16 && segments_ != 32) || share_steps_ < 1 ||
        width_ < 8 || width_ > panel::kMostRows || width_ % 8 != 0 || column_parts < 1 || row_parts_ < 1)
      return invalid_input("panel: its facts are no packing");
    const auto part_count = static_cast<std::int64_t>(parts_.size());
    if (part_count % row_parts_ != 0 || part_count / row_parts_ != column_parts) return missing("parts");
    if (static_cast<std::int64_t>(shares_.size()) != part_count * warps_) return missing("shares");
    if (share_steps_ > static_cast<std::int64_t>(entries_.size()) ||
        static_cast<std::int64_t>(entries_.size()) !=
            (static_cast<std::int64_t>(shares_.size()) * share_steps_ + panel::kSpareSteps) * kStepWords)
      return missing("entries");
    if (task_slots_.empty() || task_slots_.size() % static_cast<std::size_t>(segments_) != 0)
      return missing("task_slots");
    return {};
  }

  // The parts of a column part hold its rows one after the other, and all parts share out row_slots_. Every slot is
  // one segment's.
  Status check_parts() const {
    std::uint64_t row = 0;
    std::uint64_t offset = 0;
    std::uint64_t slots = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const panel::Part& part = parts_[i];
      if (static_cast<std::int64_t>(i) % row_parts_ == 0) row = 0;
      if (part.first_row != row || part.first_offset != offset || part.slot_count > kMostSlots)
        return invalid_input(fmt::format("panel: part {} is not where the one before it ends", i));
      row += part.row_count;
      offset += std::uint64_t{part.row_count} + 1;
      slots += part.slot_count;
      const bool last = static_cast<std::int64_t>(i + 1) % row_parts_ == 0;
      if (last && row != static_cast<std::uint64_t>(packed_.rows))
        return invalid_input(fmt::format("panel: parts of {} rows, of {}", row, packed_.rows));
    }
    if (offset != row_slots_.size()) return missing("row_slots");
    if (slots > task_slots_.size()) return missing("task_slots");
    return {};
  }

  Status read_part(std::size_t index) {
    const panel::Part& part = parts_[index];
    row_of_slot_.assign(part.slot_count, 0);
    std::uint32_t last = 0;
    for (std::uint32_t row = 0; row < part.row_count; ++row) {
      const std::uint32_t end = row_slots_[part.first_offset + row + 1];
      if (row_slots_[part.first_offset + row] != last || end < last || end > part.slot_count)
        return missing("row_slots");
      for (; last < end; ++last) row_of_slot_[last] = part.first_row + row;
    }
    if (last != part.slot_count) return missing("row_slots");
    first_column_ = static_cast<std::int64_t>(index) / row_parts_ * width_;
    for (std::int64_t warp = 0; warp < warps_; ++warp)
      SPARSMITH_RETURN_IF_ERROR(read_share(static_cast<std::int64_t>(index) * warps_ + warp));
    return {};
  }

  Status read_share(std::int64_t index) {
    const panel::Share share = shares_[static_cast<std::size_t>(index)];
    if (share.step_count > share_steps_) return invalid_input(fmt::format("panel: share {} is too long", index));
    std::uint64_t task = share.first_task;
    for (std::uint32_t step = 0; step < share.step_count; ++step) {
      if ((task + 1) * static_cast<std::uint64_t>(segments_) > task_slots_.size()) return missing("task_slots");
      const std::int64_t first_word = (index * share_steps_ + step) * kStepWords;
      SPARSMITH_RETURN_IF_ERROR(read_step(first_word, task));
      if ((entries_[static_cast<std::size_t>(first_word)] & panel::kTaskEnd) != 0) ++task;
    }
    return {};
  }

  Status read_step(std::int64_t first_word, std::uint64_t task) {
    const DataType type = packed_.value_type;
    const auto order = fact("tensor") == 1 ? panel::LaneOrder::kTensor : panel::LaneOrder::kPlain;
    for (int e = 0; e < step_entries(type); ++e) {
      for (int holder = 0; holder < kWarpLanes; ++holder) {
        const int lane = panel::value_lane(order, holder);
        const auto word_at = [&](int of_lane) {
          return static_cast<std::size_t>(first_word + of_lane * kWordsPerLane + e * words_per_entry(type));
        };
        const std::uint32_t row = entries_[word_at(lane)] & (panel::kTaskEnd - 1);
        if (row >= width_) continue;
        const std::int64_t column = first_column_ + panel::panel_row(static_cast<int>(row));
        const int segment = panel::segment_of_lane(order, static_cast<int>(segments_), lane);
        const std::uint16_t slot =
            task_slots_[task * static_cast<std::uint64_t>(segments_) + static_cast<std::uint64_t>(segment)];
        if (column >= packed_.cols || slot >= row_of_slot_.size())
          return invalid_input(
              fmt::format("panel: column {} of {} or slot {} does not exist", column, packed_.cols, slot));
        const std::uint32_t bits =
            words_per_entry(type) == 1 ? entries_[word_at(holder)] >> 16 : entries_[word_at(holder) + 1];
        rows_->add(row_of_slot_[slot], static_cast<std::uint32_t>(column), bits);
      }
    }
    return {};
  }

  const PackedWeight& packed_;
  std::span<const std::uint32_t> entries_;
  std::span<const panel::Share> shares_;
  std::span<const std::uint16_t> task_slots_;
  std::span<const panel::Part> parts_;
  std::span<const std::uint16_t> row_slots_;
  std::int64_t warps_ = 0, segments_ = 0, share_steps_ = 0, width_ = 0, row_parts_ = 0, first_column_ = 0;
  std::vector<std::uint32_t> row_of_slot_;
  std::optional<UnpackedRows> rows_;
};

}  // namespace

Result<CsrMatrix> unpack_panel(const PackedWeight& packed) { return Unpacker(packed).unpack(); }

}  // namespace sparsmith
