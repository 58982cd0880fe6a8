#include "formats/csr.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/ceil_div.h"
#include "base/enum_names.h"
#include "base/split.h"
#include "formats/csr_layout.h"
#include "formats/packed_reader.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

constexpr std::string_view kOrderNames[] = {"natural", "sorted", "binned"};
constexpr std::string_view kPartialsNames[] = {"none", "atomic", "two_pass"};

std::optional<CsrPacking> packing_named(std::string_view name) {
  const auto parts = split(name, "_");
  if (parts.size() < 4) return std::nullopt;
  CsrPacking packing{.index_bytes = number_of(parts[1], "u") == 16 ? 2 : 4,
                     .alignment = static_cast<int>(number_of(parts[2], "a")),
                     .order = value_in<RowOrder>(kOrderNames, parts[3]).value_or(RowOrder::kNatural)};
  if (parts.size() >= 6) {
    packing.split_length = number_of(parts[4], "l");
    packing.partials = parts[5] == "atomic" ? PartialSums::kAtomic : PartialSums::kTwoPass;
  }
  const bool is_aligned = packing.alignment >= 1 && packing.alignment <= 8 &&
                          std::has_single_bit(static_cast<unsigned>(packing.alignment)) &&
                          packing.split_length % packing.alignment == 0;
  return packing.name() == name && is_aligned ? std::optional(packing) : std::nullopt;
}

Status check(const CsrPacking& packing, std::int64_t /*rows*/, std::int64_t cols, DataType type) {
  if (packing.index_bytes == 2 && cols > 65536)
    return invalid_argument(fmt::format("csr: K = {} does not fit 16-bit columns; pack with 32-bit ones", cols));
  if (type == DataType::kInt8 && packing.alignment < 2)
    return invalid_argument("csr: 8-bit codes are loaded by two at least; align to 2");
  return {};
}

// Whether rows of these offsets are processed in this order.
auto precedes(std::span<const std::int64_t> row_offsets, RowOrder order) {
  return [=](std::uint32_t a, std::uint32_t b) {
    const auto key = [&](std::uint32_t row) {
      const auto length = static_cast<std::uint64_t>(row_offsets[row + 1] - row_offsets[row]);
      return order == RowOrder::kSorted ? length : static_cast<std::uint64_t>(std::bit_width(length));
    };
    if (order == RowOrder::kNatural || key(a) == key(b)) return a < b;
    return key(a) > key(b);
  };
}

// The segments of a weight and where each one's nonzeros come from.
struct Segmentation {
  std::vector<csr::Segment> segments;
  std::vector<std::int64_t> sources;  // first nonzero of each segment in the matrix
  std::vector<std::uint32_t> targets;
  std::vector<std::uint32_t> split_rows;
  std::vector<std::uint32_t> slot_offsets{0};
  std::int64_t stored = 0;
};

// rows: in the order of processing.
Segmentation cut(std::span<const std::int64_t> row_offsets, std::span<const std::uint32_t> rows,
                 const CsrPacking& packing) {
  Segmentation result;
  result.segments.reserve(rows.size());
  result.sources.reserve(rows.size());
  result.targets.reserve(rows.size());
  const auto add = [&](std::int64_t source, std::int64_t length, std::uint32_t target) {
    result.segments.push_back({static_cast<unsigned>(result.stored), static_cast<unsigned>(length)});
    result.sources.push_back(source);
    result.targets.push_back(target);
    result.stored += ceil_div(length, packing.alignment) * packing.alignment;
  };
  for (const std::uint32_t row : rows) {
    const std::int64_t end = row_offsets[row + 1];
    std::int64_t begin = row_offsets[row];
    if (packing.split_length == 0 || end - begin <= packing.split_length) {
      add(begin, end - begin, row);
      continue;
    }
    std::uint32_t slot = result.slot_offsets.back();
    for (; begin < end; begin += packing.split_length) {
      add(begin, std::min(packing.split_length, end - begin), csr::kPartialFlag | slot);
      slot += packing.partials == PartialSums::kTwoPass ? 1 : 0;
    }
    result.split_rows.push_back(row);
    result.slot_offsets.push_back(slot + (packing.partials == PartialSums::kTwoPass ? 0 : 1));
  }
  return result;
}

// The elements of the matrix, converted to `Stored`, at the places of their segments.
template <class Stored, class Element, class Convert>
PackedArray pack_elements(std::string name, DataType type, const std::vector<Element>& elements,
                          const Segmentation& cuts, Convert convert) {
  PackedArray array{std::move(name), type, std::vector<std::byte>(cuts.stored * sizeof(Stored))};
  auto* stored = reinterpret_cast<Stored*>(array.bytes.data());
  for (std::size_t s = 0; s < cuts.segments.size(); ++s) {
    const Element* from = elements.data() + cuts.sources[s];
    std::transform(from, from + cuts.segments[s].length, stored + cuts.segments[s].first, convert);
  }
  return array;
}

PackedArray pack_columns(const CsrMatrix& matrix, const Segmentation& cuts, int index_bytes) {
  const auto pack_as = [&]<class Index>(Index, DataType type) {
    return pack_elements<Index>("columns", type, matrix.column_indices, cuts,
                                [](std::uint32_t column) { return static_cast<Index>(column); });
  };
  return index_bytes == 2 ? pack_as(std::uint16_t{}, DataType::kUint16) : pack_as(std::uint32_t{}, DataType::kUint32);
}

PackedArray pack_values(const CsrMatrix& matrix, const Segmentation& cuts, DataType type) {
  const auto pack_as = [&]<class Stored>(Stored, const auto& convert) {
    return pack_elements<Stored>("values", type, matrix.values, cuts, convert);
  };
  switch (type) {  // a type for each conversion, so that it is vectorised
    case DataType::kFloat16:
      return pack_as(std::uint16_t{}, [](float value) { return half_bits(value, DataType::kFloat16); });
    case DataType::kBFloat16:
      return pack_as(std::uint16_t{}, [](float value) { return half_bits(value, DataType::kBFloat16); });
    case DataType::kInt8: return pack_as(std::int8_t{}, [](float value) { return static_cast<std::int8_t>(value); });
    default: return pack_as(float{}, [](float value) { return value + 0.0F; });
  }
}

bool has_targets(const CsrPacking& packing) { return packing.order != RowOrder::kNatural || packing.split_length > 0; }

Status pack_weight(const CsrMatrix& matrix, const CsrPacking& packing, DataType type, PackedWeight& packed) {
  if (matrix.nnz() + matrix.rows * 7 >= (std::int64_t{1} << 32))
    return invalid_argument(
        fmt::format("csr: {} rows with {} nonzeros exceed 32-bit offsets", matrix.rows, matrix.nnz()));
  std::vector<std::uint32_t> rows(matrix.rows);
  std::iota(rows.begin(), rows.end(), 0U);
  std::ranges::sort(rows, precedes(matrix.row_offsets, packing.order));
  const Segmentation cuts = cut(matrix.row_offsets, rows, packing);
  packed.arrays.push_back(array_of("segments", DataType::kUint32, cuts.segments));
  packed.arrays.push_back(pack_columns(matrix, cuts, packing.index_bytes));
  packed.arrays.push_back(pack_values(matrix, cuts, type));
  if (has_targets(packing)) packed.arrays.push_back(array_of("targets", DataType::kUint32, cuts.targets));
  if (!cuts.split_rows.empty()) {
    packed.arrays.push_back(array_of("split_rows", DataType::kUint32, cuts.split_rows));
    packed.arrays.push_back(array_of("slot_offsets", DataType::kUint32, cuts.slot_offsets));
  }
  packed.facts = {{"segments", std::ssize(cuts.segments)},
                  {"split_rows", std::ssize(cuts.split_rows)},
                  {"slots", cuts.slot_offsets.back()},
                  {"stored", cuts.stored},
                  {"has_targets", has_targets(packing) ? 1 : 0}};
  return {};
}

class CsrReader : public PackedReader {
 public:
  CsrReader(const PackedView& view, const CsrPacking& packing, PackedParts& parts)
      : packing_(packing), rows_(view.rows), cols_(view.cols), value_bytes_(size_of(view.value_type)) {
    constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 1;
    segments_ = parts.array<csr::Segment>("segments", DataType::kUint32);
    parts.expect_fact("segments", segments_.size());
    stored_ = parts.fact("stored", 0, kMost);
    const bool narrow = packing.index_bytes == 2;
    columns_ = parts.array<std::byte>("columns", narrow ? DataType::kUint16 : DataType::kUint32,
                                      stored_ * packing.index_bytes);
    values_ = parts.array<std::byte>("values", view.value_type, stored_ * value_bytes_);
    parts.expect_fact("has_targets", has_targets(packing) ? 1 : 0);
    if (has_targets(packing)) targets_ = parts.array<std::uint32_t>("targets", DataType::kUint32, segments_.size());
    const std::int64_t split_rows = parts.fact("split_rows", 0, packing.split_length > 0 ? view.rows : 0);
    slots_ = parts.fact("slots", 0, segments_.size());
    if (split_rows > 0) {
      split_rows_ = parts.array<std::uint32_t>("split_rows", DataType::kUint32, split_rows);
      slot_offsets_ = parts.array<std::uint32_t>("slot_offsets", DataType::kUint32, split_rows + 1);
    }
    parts.require(view.rows <= segments_.size(), fmt::format("{} segments for {} rows", segments_.size(), view.rows));
  }

  Status check_bounds(int threads) override {
    if (!are_segments()) return invalid_input("segments, or where their sums go, are not as packers write them");
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
    rows.begin(unit, count);
    for (std::int64_t row = 0; row < count; ++row) {
      const RowSegments& of_row = row_segments_[first + row];
      for (std::uint32_t s = of_row.first; s < of_row.first + of_row.count; ++s) {
        const bool padded = packing_.index_bytes == 2 ? read_segment<std::uint16_t>(s, row, rows)
                                                      : read_segment<std::uint32_t>(s, row, rows);
        if (!padded) return invalid_input(fmt::format("segment {}: padding behind it is not 0", s));
      }
    }
    return rows.store_from(first);
  }

 private:
  static constexpr std::int64_t kUnitRows = 64;

  // Of a row: neighbours.
  struct RowSegments {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  // Whether segments, targets and slots are those that packers cut of rows of these lengths, in their order.
  bool are_segments() {
    row_segments_.assign(rows_, {});
    std::vector<std::int64_t> offsets(rows_ + 1);
    std::vector<std::uint32_t> rows;
    rows.reserve(rows_);
    std::int64_t split = 0;
    for (std::int64_t s = 0; s < segments_.size(); ++s) {
      std::int64_t row = has_targets(packing_) ? targets_[s] : s;
      if ((row & csr::kPartialFlag) != 0) {
        const std::int64_t slot = row & ~csr::kPartialFlag;
        while (split < split_rows_.size() && slot_offsets_[split + 1] <= slot) ++split;
        row = split < split_rows_.size() ? split_rows_[split] : rows_;
      }
      if (row >= rows_) return false;
      offsets[row + 1] += segments_[s].length;
      if (offsets[row + 1] > cols_) return false;
      if (row_segments_[row].count++ > 0) continue;
      row_segments_[row].first = static_cast<std::uint32_t>(s);
      rows.push_back(static_cast<std::uint32_t>(row));
    }
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    if (std::ssize(rows) != rows_ || offsets.back() > stored_ ||
        !std::ranges::is_sorted(rows, precedes(offsets, packing_.order)))
      return false;
    const Segmentation cuts = cut(offsets, rows, packing_);
    const bool has_slots = split_rows_.size() > 0;
    return cuts.stored == stored_ && cuts.slot_offsets.back() == slots_ && segments_.holds(cuts.segments) &&
           (!has_targets(packing_) || targets_.holds(cuts.targets)) && split_rows_.holds(cuts.split_rows) &&
           (!has_slots || slot_offsets_.holds(cuts.slot_offsets));
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
    UnitRows::Entry* to = rows.room(row, segment.length);
    for (std::uint32_t i = 0; i < segment.length; ++i) to[i] = {columns[segment.first + i], values[segment.first + i]};
    rows.take(row, to + segment.length);
    std::uint32_t padding = 0;
    const auto room = ceil_div(segment.length, packing_.alignment) * packing_.alignment;
    for (std::int64_t i = segment.length; i < room; ++i)
      padding |= columns[segment.first + i] | values[segment.first + i];
    return padding == 0;
  }

  const CsrPacking packing_;
  const std::int64_t rows_;
  const std::int64_t cols_;
  const std::int64_t value_bytes_;
  std::int64_t stored_ = 0;
  std::int64_t slots_ = 0;
  Elements<csr::Segment> segments_;
  Elements<std::byte> columns_, values_;
  Elements<std::uint32_t> targets_, split_rows_, slot_offsets_;
  std::vector<RowSegments> row_segments_;
};

}  // namespace

std::string CsrPacking::name() const {
  std::string text = fmt::format("csr_u{}_a{}_{}", index_bytes * 8, alignment, name_in(kOrderNames, order));
  if (split_length > 0) text += fmt::format("_l{}_{}", split_length, name_in(kPartialsNames, partials));
  return text;
}

PackedFormat csr_format() {
  return format_of<CsrReader, packing_named, pack_weight, 1, check>(
      {.name = "csr", .value_arrays = {"values"}, .codes = true});
}

}  // namespace sparsmith
