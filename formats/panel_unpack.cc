// Reads the panel format back.
#include <fmt/format.h>

#include <bit>
#include <optional>

#include "formats/panel.h"
#include "formats/panel_words.h"
#include "formats/unpacked_rows.h"

namespace sparsmith {
namespace {

using panel::kMostSlots;

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
    token_lanes_ = fact("token_lanes");
    const std::int64_t order = fact("lane_order");
    if (order < 0 || order > static_cast<std::int64_t>(panel::LaneOrder::kSparseTensor))
      return invalid_input("panel: \"lane_order\" is missing or none of 0, 1, 2 (it was packed by another version?)");
    order_ = token_lanes_ == 0 ? static_cast<panel::LaneOrder>(order) : panel::LaneOrder::kPlain;
    sweeps_ = token_lanes_ > 0 && fact("sweep_columns") > 0;
    turned_ = fact("turned") == 1;
    const std::int64_t row_store = fact("row_store");
    if (row_store < 0 || row_store > static_cast<std::int64_t>(panel::RowStore::kAdded))
      return invalid_input("panel: \"row_store\" is missing or none of 0 to 3 (it was packed by another version?)");
    const auto store = token_lanes_ == 0 ? static_cast<panel::RowStore>(row_store) : panel::RowStore::kSlots;
    adds_ = store == panel::RowStore::kAdded;
    whole_rows_ = store == panel::RowStore::kDirect || store == panel::RowStore::kStaged;
    const auto is_lanes = [](std::int64_t lanes) {
      return lanes > 0 && std::has_single_bit(static_cast<std::uint64_t>(lanes));
    };
    if ((token_lanes_ != 0 && !is_lanes(token_lanes_)) || token_lanes_ > 8)
      return invalid_input("panel: its facts are no packing");
    words_ = panel::step_words(packed_.value_type, static_cast<int>(token_lanes_), packed_.cols);
    const bool fits =
        token_lanes_ > 0 ? column_parts == 1 : segments_ >= panel::kPhaseLanes && width_ <= panel::kMostRows;
    if (warps_ < 1 || warps_ > 32 || !is_lanes(segments_) || segments_ > words_.lanes || share_steps_ < 1 ||
        width_ < 8 || width_ % 8 != 0 || column_parts < 1 || row_parts_ < 1 || !fits)
      return invalid_input("panel: its facts are no packing");
    const auto part_count = static_cast<std::int64_t>(parts_.size());
    if (part_count % row_parts_ != 0 || part_count / row_parts_ != column_parts) return missing("parts");
    if (static_cast<std::int64_t>(shares_.size()) != part_count * warps_) return missing("shares");
    if (share_steps_ > static_cast<std::int64_t>(entries_.size()) ||
        static_cast<std::int64_t>(entries_.size()) !=
            (static_cast<std::int64_t>(shares_.size()) * share_steps_ + panel::kSpareSteps) * words_.step())
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
    const std::int64_t most_slots = sweeps_       ? std::int64_t{panel::kAddFlag} - 1
                                    : whole_rows_ ? panel::kMostWholeRows
                                                  : kMostSlots;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const panel::Part& part = parts_[i];
      if (static_cast<std::int64_t>(i) % row_parts_ == 0) row = 0;
      if (part.first_row != row || part.first_offset != offset || part.slot_count > most_slots ||
          (whole_rows_ && part.row_count > panel::kMostWholeRows))
        return invalid_input(fmt::format("panel: part {} is not where the one before it ends", i));
      row += part.row_count;
      offset += std::uint64_t{part.row_count} + 1;
      // Column parts that add to the same slots have the same ones.
      if (!adds_ || static_cast<std::int64_t>(i) < row_parts_) slots += part.slot_count;
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
    row_is_whole_.assign(whole_rows_ ? part.row_count : 0, false);
    const std::uint32_t mask = whole_rows_ ? ~panel::kWholeRow : ~0U;
    std::uint32_t last = 0;
    for (std::uint32_t row = 0; row < part.row_count; ++row) {
      const std::uint32_t begin = row_slots_[part.first_offset + row];
      const std::uint32_t end = row_slots_[part.first_offset + row + 1] & mask;
      const bool whole = whole_rows_ && (begin & panel::kWholeRow) != 0;
      if ((begin & mask) != last || end < last || end > part.slot_count || (whole && end != last))
        return missing("row_slots");
      if (whole_rows_) row_is_whole_[row] = whole;
      for (; last < end; ++last) row_of_slot_[last] = part.first_row + row;
    }
    if (last != part.slot_count) return missing("row_slots");
    first_row_ = part.first_row;
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
      const std::uint32_t* words = entries_.data() + (index * share_steps_ + step) * words_.step();
      SPARSMITH_RETURN_IF_ERROR(read_step(words, task));
      if (words_.ends_task(words)) ++task;
    }
    return {};
  }

  Status read_step(const std::uint32_t* step, std::uint64_t task) {
    for (int e = 0; e < words_.entries(); ++e) {
      for (int holder = 0; holder < words_.lanes; ++holder) {
        const int lane = panel::value_lane(order_, holder);
        const std::uint32_t named = words_.column(step, lane, e);
        if (token_lanes_ > 0 ? named == packed_.cols : named >= width_) continue;
        const std::int64_t column = token_lanes_ > 0 ? named : first_column_ + column_of(named);
        const int segment = panel::segment_of_lane(order_, static_cast<int>(segments_), lane);
        std::uint32_t slot =
            task_slots_[task * static_cast<std::uint64_t>(segments_) + static_cast<std::uint64_t>(segment)];
        if (sweeps_) slot &= ~panel::kAddFlag;
        const std::int64_t row = row_of(slot);
        if (column >= packed_.cols || row < 0)
          return invalid_input(
              fmt::format("panel: column {} of {} or slot {} does not exist", column, packed_.cols, slot));
        rows_->add(row, static_cast<std::uint32_t>(column), words_.value(step, holder, e));
      }
    }
    return {};
  }

  std::int64_t column_of(std::uint32_t panel_row) const {
    return turned_ ? panel::panel_row(static_cast<int>(panel_row)) : static_cast<std::int64_t>(panel_row);
  }

  // That a segment's sums belong to; -1 if there is none.
  std::int64_t row_of(std::uint32_t slot) const {
    if (!whole_rows_ || (slot & panel::kWholeRow) == 0)
      return slot < row_of_slot_.size() ? std::int64_t{row_of_slot_[slot]} : -1;
    slot &= ~panel::kWholeRow;
    return slot < row_is_whole_.size() && row_is_whole_[slot] ? first_row_ + slot : -1;
  }

  const PackedWeight& packed_;
  std::span<const std::uint32_t> entries_;
  std::span<const panel::Share> shares_;
  std::span<const std::uint16_t> task_slots_;
  std::span<const panel::Part> parts_;
  std::span<const std::uint16_t> row_slots_;
  std::int64_t warps_ = 0, segments_ = 0, share_steps_ = 0, width_ = 0, row_parts_ = 0, token_lanes_ = 0,
               first_row_ = 0, first_column_ = 0;
  bool sweeps_ = false;
  bool turned_ = false;
  bool whole_rows_ = false;
  bool adds_ = false;
  panel::StepWords words_{};
  std::vector<std::uint32_t> row_of_slot_;
  std::vector<bool> row_is_whole_;  // of a part
  panel::LaneOrder order_ = panel::LaneOrder::kPlain;
  std::optional<UnpackedRows> rows_;
};

}  // namespace

Result<CsrMatrix> unpack_panel(const PackedWeight& packed) { return Unpacker(packed).unpack(); }

}  // namespace sparsmith
