#include <fmt/format.h>

#include <bit>

#include "base/ceil_div.h"
#include "formats/csr.h"
#include "formats/csr_layout.h"
#include "formats/packed_reader.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kUnitRows = 64;

Result<CsrPacking> packing_named(std::string_view name) {
  const auto parts = name_parts(name);
  CsrPacking packing;
  if (parts.size() >= 4) {
    packing.index_bytes = number_of(parts[1], "u") == 16 ? 2 : 4;
    packing.alignment = static_cast<int>(number_of(parts[2], "a"));
    for (const RowOrder order : {RowOrder::kSorted, RowOrder::kBinned})
      if (parts[3] == row_order_name(order)) packing.order = order;
  }
  if (parts.size() >= 6) {
    packing.split_length = number_of(parts[4], "l");
    packing.partials = parts[5] == "atomic" ? PartialSums::kAtomic : PartialSums::kTwoPass;
  }
  if (packing.name() == name && packing.alignment >= 1 && packing.alignment <= 8 &&
      std::has_single_bit(static_cast<unsigned>(packing.alignment)) && packing.split_length % packing.alignment == 0)
    return packing;
  return invalid_input("a name of no csr packing");
}

class CsrReader : public PackedReader {
 public:
  CsrReader(const PackedView& view, const CsrPacking& packing, PackedParts& parts)
      : packing_(packing),
        rows_(view.rows),
        cols_(view.cols),
        value_bytes_(static_cast<int>(size_of(view.value_type))) {
    constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 1;
    segments_ = parts.array<csr::Segment>("segments", DataType::kUint32);
    parts.expect_fact("segments", segments_.size());
    stored_ = parts.fact("stored", 0, kMost);
    const bool narrow = packing.index_bytes == 2;
    columns_ = parts.array<std::byte>("columns", narrow ? DataType::kUint16 : DataType::kUint32,
                                      stored_ * packing.index_bytes);
    values_ = parts.array<std::byte>("values", view.value_type, stored_ * value_bytes_);
    has_targets_ = packing.order != RowOrder::kNatural || packing.split_length > 0;
    parts.expect_fact("has_targets", has_targets_ ? 1 : 0);
    if (has_targets_) targets_ = parts.array<std::uint32_t>("targets", DataType::kUint32, segments_.size());
    const std::int64_t split_rows = parts.fact("split_rows", 0, packing.split_length > 0 ? view.rows : 0);
    slots_ = parts.fact("slots", 0, segments_.size());
    if (split_rows > 0) {
      split_rows_ = parts.array<std::uint32_t>("split_rows", DataType::kUint32, split_rows);
      slot_offsets_ = parts.array<std::uint32_t>("slot_offsets", DataType::kUint32, split_rows + 1);
    }
    parts.require(view.rows <= segments_.size() && view.rows < (std::int64_t{1} << 31),
                  fmt::format("{} segments for {} rows", segments_.size(), view.rows));
    parts.require(packing.index_bytes == 4 || view.cols <= 65536, "columns that exceed 16 bits");
    parts.require(value_bytes_ * packing.alignment > 1, "8-bit codes that are not aligned to 2");
  }

  Status check_bounds(int threads) override {
    SPARSMITH_RETURN_IF_ERROR(check_segments());
    return check_ranges(stored_, std::int64_t{1} << 18, threads, [&](std::int64_t begin, std::int64_t end) -> Status {
      const std::byte* from = columns_.at(begin * packing_.index_bytes);
      const bool below = packing_.index_bytes == 2 ? all_below<std::uint16_t>(from, end - begin, cols_)
                                                   : all_below<std::uint32_t>(from, end - begin, cols_);
      return below ? Status{}
                   : invalid_input(fmt::format("columns: one of {} to {} is none of {}", begin, end - 1, cols_));
    });
  }

  std::int64_t units() const override { return ceil_div(rows_, kUnitRows); }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    const std::int64_t first = unit * kUnitRows;
    const std::int64_t count = std::min(kUnitRows, rows_ - first);
    rows.begin(static_cast<std::uint32_t>(unit), static_cast<std::size_t>(count));
    for (std::int64_t row = 0; row < count; ++row) {
      const RowSegments& of_row = row_segments_[static_cast<std::size_t>(first + row)];
      for (std::uint32_t s = of_row.first; s < of_row.first + of_row.count; ++s) {
        const bool padded = packing_.index_bytes == 2 ? read_segment<std::uint16_t>(s, row, rows)
                                                      : read_segment<std::uint32_t>(s, row, rows);
        if (!padded) return invalid_input(fmt::format("segment {}: padding behind it is not 0", s));
      }
    }
    return rows.store_from(first);
  }

 private:
  // Of a row: neighbours.
  struct RowSegments {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  std::uint64_t order_key(std::int64_t length) const {
    switch (packing_.order) {
      case RowOrder::kNatural: return 0;
      case RowOrder::kSorted: return static_cast<std::uint64_t>(length);
      default: return static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(length)));
    }
  }

  // Segments are those that packers cut, in the order and at the places that packers give them.
  Status check_segments() {
    row_segments_.assign(static_cast<std::size_t>(rows_), {});
    std::int64_t stored = 0;
    std::int64_t split = 0;
    std::int64_t rows_seen = 0;
    std::int64_t row_before = -1;
    std::uint64_t key_before = ~std::uint64_t{0};
    for (std::int64_t s = 0; s < segments_.size();) {
      const auto wrong = [&] { return invalid_input(fmt::format("segment {} is not as packers write it", s)); };
      const std::uint32_t target = has_targets_ ? targets_[s] : static_cast<std::uint32_t>(s);
      const bool is_split = (target & csr::kPartialFlag) != 0;
      if (is_split && split >= split_rows_.size()) return wrong();
      const std::int64_t row = is_split ? split_rows_[split] : target;
      if (row >= rows_ || row_segments_[static_cast<std::size_t>(row)].count > 0) return wrong();
      const std::int64_t pieces = is_split ? pieces_of(s, split) : 1;
      if (pieces < 1 || pieces > segments_.size() - s) return wrong();
      std::int64_t length = 0;
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const csr::Segment segment = segments_[s + piece];
        if (segment.first != stored || (has_targets_ && targets_[s + piece] != target_of(target, piece)) ||
            (piece + 1 < pieces && segment.length != packing_.split_length) || (is_split && segment.length == 0))
          return wrong();
        length += segment.length;
        stored += ceil_div(segment.length, packing_.alignment) * packing_.alignment;
      }
      if (stored > stored_ || length > cols_ ||
          is_split != (packing_.split_length > 0 && length > packing_.split_length))
        return wrong();
      const std::uint64_t key = order_key(length);
      if (key > key_before || (key == key_before && row <= row_before)) return wrong();
      key_before = key;
      row_before = row;
      row_segments_[static_cast<std::size_t>(row)] = {static_cast<std::uint32_t>(s),
                                                      static_cast<std::uint32_t>(pieces)};
      ++rows_seen;
      split += is_split ? 1 : 0;
      s += pieces;
    }
    const std::int64_t slots = split_rows_.size() > 0 ? slot_offsets_[split_rows_.size()] : 0;
    if (stored != stored_ || rows_seen != rows_ || split != split_rows_.size() || slots != slots_)
      return invalid_input(fmt::format("segments of {} rows with {} elements and {} slots, not of {} with {} and {}",
                                       rows_seen, stored, slots, rows_, stored_, slots_));
    return {};
  }

  std::uint32_t target_of(std::uint32_t first, std::int64_t piece) const {
    return first + (packing_.partials == PartialSums::kTwoPass ? static_cast<std::uint32_t>(piece) : 0U);
  }

  // How many pieces split row `split` has, whose first is segment `s`; -1 where its slots are not its own.
  std::int64_t pieces_of(std::int64_t s, std::int64_t split) const {
    const std::uint32_t slot = slot_offsets_[split];
    if (targets_[s] != (csr::kPartialFlag | slot) || (split == 0 && slot != 0)) return -1;
    const std::int64_t slots = std::int64_t{slot_offsets_[split + 1]} - slot;
    if (packing_.partials == PartialSums::kTwoPass) return slots;
    if (slots != 1) return -1;
    std::int64_t pieces = 1;
    while (s + pieces < segments_.size() && targets_[s + pieces] == targets_[s]) ++pieces;
    return pieces;
  }

  template <class Index>
  bool read_segment(std::uint32_t s, std::int64_t row, UnitRows& rows) const {
    switch (value_bytes_) {
      case 1: return read_segment_of<Index, std::uint8_t>(s, row, rows);
      case 2: return read_segment_of<Index, std::uint16_t>(s, row, rows);
      default: return read_segment_of<Index, std::uint32_t>(s, row, rows);
    }
  }
  // False where padding behind it is not 0.
  template <class Index, class Bits>
  bool read_segment_of(std::uint32_t s, std::int64_t row, UnitRows& rows) const {
    const csr::Segment segment = segments_[s];
    const Elements<Index> columns(columns_.bytes());
    const Elements<Bits> values(values_.bytes());
    UnitRows::Entry* to = rows.room(static_cast<std::size_t>(row), segment.length);
    for (std::uint32_t i = 0; i < segment.length; ++i) to[i] = {columns[segment.first + i], values[segment.first + i]};
    rows.take(static_cast<std::size_t>(row), to + segment.length);
    std::uint32_t padding = 0;
    const auto room = ceil_div(segment.length, packing_.alignment) * packing_.alignment;
    for (std::int64_t i = segment.length; i < room; ++i)
      padding |= columns[segment.first + i] | values[segment.first + i];
    return padding == 0;
  }

  const CsrPacking packing_;
  const std::int64_t rows_;
  const std::int64_t cols_;
  const int value_bytes_;
  bool has_targets_ = false;
  std::int64_t stored_ = 0;
  std::int64_t slots_ = 0;
  Elements<csr::Segment> segments_;
  Elements<std::byte> columns_, values_;
  Elements<std::uint32_t> targets_, split_rows_, slot_offsets_;
  std::vector<RowSegments> row_segments_;
};

}  // namespace

PackedFormat csr_format() {
  PackedFormat format = format_of<CsrReader, packing_named, pack_csr, 1>("csr", {"values"});
  format.codes = true;
  return format;
}

}  // namespace sparsmith
