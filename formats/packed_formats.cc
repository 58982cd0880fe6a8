// The table of formats, and the one that has no packer here: a dense weight.
#include <fmt/format.h>

#include "base/ceil_div.h"
#include "formats/packed_reader.h"

namespace sparsmith {

Result<std::unique_ptr<PackedReader>> open_bitmap(const PackedView& view);
Result<std::unique_ptr<PackedReader>> open_bsr(const PackedView& view);
Result<std::unique_ptr<PackedReader>> open_csr(const PackedView& view);
Result<std::unique_ptr<PackedReader>> open_panel(const PackedView& view);
Result<std::unique_ptr<PackedReader>> open_scatter(const PackedView& view);
Result<std::unique_ptr<PackedReader>> open_slots(const PackedView& view);
Result<std::unique_ptr<PackedReader>> open_two_four(const PackedView& view);

namespace {

// One array "values": [rows][cols], row-major; what is no nonzero is +0.
class DenseReader : public PackedReader {
 public:
  DenseReader(const PackedView& view, PackedParts& parts)
      : rows_(view.rows), cols_(view.cols), value_bytes_(static_cast<std::int64_t>(size_of(view.value_type))) {
    values_ = parts.array<std::byte>("values", view.value_type, rows_ * cols_ * value_bytes_);
  }

  Status check_bounds(int /*threads*/) override { return {}; }
  std::int64_t units() const override { return ceil_div(rows_, kUnitRows); }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    const std::int64_t first = unit * kUnitRows;
    const std::int64_t count = std::min(kUnitRows, rows_ - first);
    rows.begin(static_cast<std::uint32_t>(unit), static_cast<std::size_t>(count));
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
      UnitRows::Entry* to = rows.room(static_cast<std::size_t>(row), kColumns);
      for (std::int64_t column = begin; column < end; ++column) {
        Bits bits;
        std::memcpy(&bits, from + column * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
        *to = {static_cast<std::uint32_t>(column), bits};
        to += bits != 0 ? 1 : 0;
      }
      rows.take(static_cast<std::size_t>(row), to);
    }
  }

  const std::int64_t rows_;
  const std::int64_t cols_;
  const std::int64_t value_bytes_;
  Elements<std::byte> values_;
};

Result<std::unique_ptr<PackedReader>> open_dense(const PackedView& view) {
  if (view.packing != "dense") return invalid_input("a name of no dense packing");
  return open_reader<DenseReader>(view, {1});
}

}  // namespace

std::span<const PackedFormat> packed_formats() {
  static constexpr PackedFormat kFormats[] = {
      {"bitmap", open_bitmap}, {"bsr", open_bsr},         {"csr", open_csr},     {"dense", open_dense},
      {"panel", open_panel},   {"scatter", open_scatter}, {"slots", open_slots}, {"two_four", open_two_four}};
  return kFormats;
}

}  // namespace sparsmith
