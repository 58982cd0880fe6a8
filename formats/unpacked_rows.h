// The nonzeros of a packed weight while readers of all formats put them back into rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/packed_check.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

class PackedReader;

// The nonzeros of a unit, row after row, sorted and checked. Numbers are as narrow as possible: columns have 16 bits if
// the weight has at most 65,536 columns; values are as stored.
struct UnpackedUnit {
  std::unique_ptr<std::byte[]> columns;
  std::unique_ptr<std::byte[]> values;
};

// The place of a row of the weight.
struct UnpackedRow {
  std::uint32_t unit = 0;
  std::uint32_t length = 0;
  std::uint64_t first = 0;  // in the unit
};

// The rows of a unit while a thread reads it. Keeps its memory for the next unit.
class UnitRows {
 public:
  struct Entry {
    std::uint32_t column;
    std::uint32_t bits;  // bits of the value, as stored
  };

  UnitRows(const PackedView& shape, bool negative_zeros, std::span<UnpackedRow> places, std::span<UnpackedUnit> units)
      : rows_(shape.rows),
        cols_(shape.cols),
        type_(shape.value_type),
        negative_zeros_(negative_zeros),
        places_(places),
        units_(units) {}

  // Begins a unit of `rows` rows, all empty.
  void begin(std::uint32_t unit, std::size_t rows);

  // Room behind a row's last nonzero for `count` more. take() then says how many nonzeros have been written.
  Entry* room(std::size_t row, std::size_t count) {
    Row& to = unit_rows_[row];
    if (to.capacity - to.size < count) grow(to, count);
    return to.entries.get() + to.size;
  }
  void take(std::size_t row, const Entry* end) {
    unit_rows_[row].size = static_cast<std::size_t>(end - unit_rows_[row].entries.get());
  }

  // The number of nonzeros of a row so far.
  std::size_t size(std::size_t row) const { return unit_rows_[row].size; }

  // Ends the unit. Row i is row matrix_rows[i] of the weight, or is empty and lies behind the last row.
  //   Error: kInvalidInput for columns that stand twice or are out of bounds, for values that are not finite, and for
  //   zeros whose sign is not that of the format.
  Status store(std::span<const std::int64_t> matrix_rows);
  // The same for neighbouring rows.
  Status store_from(std::int64_t first_row);

 private:
  struct Row {
    std::unique_ptr<Entry[]> entries;
    std::size_t size = 0;
    std::size_t capacity = 0;
  };

  static void grow(Row& row, std::size_t count);
  bool sort(std::span<Entry> entries);
  Status store_row(std::span<Entry> entries, std::int64_t row, std::size_t first);

  const std::int64_t rows_;
  const std::int64_t cols_;
  const DataType type_;
  const bool negative_zeros_;
  const std::span<UnpackedRow> places_;
  const std::span<UnpackedUnit> units_;
  std::uint32_t unit_ = 0;
  std::size_t unit_size_ = 0;
  std::vector<Row> unit_rows_;  // the first unit_size_ belong to the unit
  std::vector<std::int64_t> neighbours_;
  std::vector<std::uint64_t> mask_;  // mask of columns; all 0 between calls
  std::vector<std::uint32_t> bits_;  // bits by column
};

// All rows of a packed weight.
class UnpackedRows {
 public:
  // negative_zeros: as in PackedFormat; returned zeros are +0. Errors: those of `reader`. REQUIRES: the reader has
  // checked its bounds.
  static Result<UnpackedRows> read(const PackedView& shape, const PackedReader& reader, bool negative_zeros,
                                   int threads);

  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t nnz() const { return offsets_.back(); }
  std::span<const std::int64_t> offsets() const { return offsets_; }  // [rows + 1]

  CsrMatrix matrix() const;
  // The nnz and hashes that CsrMatrix computes.
  PackedClaim claim(int threads) const;

 private:
  UnpackedRows() = default;

  template <class Visit>
  void each_column_block(const Visit& visit) const;
  template <class Visit>
  void each_value_block(const Visit& visit) const;
  template <class Visit>
  void each_span(const Visit& visit) const;

  std::int64_t cols_ = 0;
  DataType type_ = DataType::kFloat32;
  std::vector<UnpackedRow> rows_;
  std::vector<UnpackedUnit> units_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace sparsmith
