// The dense format: the weight with all that it does not hold.
#include <cstring>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/packed_format.h"
#include "formats/packed_reader.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

constexpr std::string_view kName = "dense";
constexpr std::string_view kValues = "values";

// One array "values": [rows][cols], row-major; +0 where the weight has nothing.
class DenseReader : public PackedReader {
 public:
  DenseReader(const PackedView& view, NoParameters /*packing*/, PackedParts& parts)
      : rows_(view.rows), cols_(view.cols), value_bytes_(size_of(view.value_type)) {
    values_ = parts.array<std::byte>(kValues, view.value_type, rows_ * cols_ * value_bytes_);
  }

  Status check_bounds(int /*threads*/) override { return {}; }
  std::int64_t units() const override { return ceil_div(rows_, kUnitRows); }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    const std::int64_t first = unit * kUnitRows;
    const std::int64_t count = std::min(kUnitRows, rows_ - first);
    rows.begin(unit, count);
    for (std::int64_t row = 0; row < count; ++row) {
      const std::byte* from = values_.at((first + row) * cols_ * value_bytes_);
      value_bytes_ == 2 ? read_row<std::uint16_t>(from, row, rows) : read_row<std::uint32_t>(from, row, rows);
    }
    return rows.store_from(first);
  }

 private:
  static constexpr std::int64_t kUnitRows = 16;

  template <class Bits>
  void read_row(const std::byte* from, std::int64_t row, UnitRows& rows) const {
    constexpr std::int64_t kColumns = 64;  // at once
    for (std::int64_t begin = 0; begin < cols_; begin += kColumns) {
      const std::int64_t end = std::min(cols_, begin + kColumns);
      UnitRows::Entry* to = rows.room(row, kColumns);
      for (std::int64_t column = begin; column < end; ++column) {
        Bits bits;
        std::memcpy(&bits, from + column * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
        *to = {static_cast<std::uint32_t>(column), bits};
        to += bits != 0 ? 1 : 0;
      }
      rows.take(row, to);
    }
  }

  const std::int64_t rows_;
  const std::int64_t cols_;
  const std::int64_t value_bytes_;
  Elements<std::byte> values_;
};

std::optional<NoParameters> packing_named(std::string_view name) {
  return name == kName ? std::optional(NoParameters()) : std::nullopt;
}

Status pack_weight(const CsrMatrix& matrix, NoParameters /*packing*/, DataType type, PackedWeight& packed) {
  const std::size_t size = size_of(type);
  PackedArray values{std::string(kValues), type, std::vector<std::byte>(matrix.rows * matrix.cols * size)};
  const auto pack_row = [&](std::int64_t row) {
    std::byte* const to = values.bytes.data() + row * matrix.cols * size;
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      const std::uint32_t word = with_negative_zero(value_bits(matrix.values[i], type));
      const auto half = with_negative_zero(half_bits(matrix.values[i], type));
      std::memcpy(to + matrix.column_indices[i] * size, size == 4 ? static_cast<const void*>(&word) : &half, size);
    }
  };
  parallel_each(matrix.rows, pack_row, 64);
  packed.arrays.push_back(std::move(values));
  return {};
}

}  // namespace

PackedFormat dense_format() {
  return format_of<DenseReader, packing_named, pack_weight, 1>(
      {.name = kName, .value_arrays = {kValues}, .negative_zeros = true});
}

}  // namespace sparsmith
