// The nonzeros of a packed weight on their way back into rows, as readers of all formats meet them.
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

// The nonzeros of a unit, row after row, sorted and checked. Numbers are as narrow as they may be: columns of 16 bits
// up to 65,536 columns, values as stored.
struct UnpackedUnit {
  std::unique_ptr<std::byte[]> columns;
  std::unique_ptr<std::byte[]> values;
};

// Where a row of the weight is.
struct UnpackedRow {
  std::uint32_t unit = 0;
  std::uint32_t length = 0;
  std::uint64_t first = 0;  // in the unit
};

// What a thread reads a unit into. Keeps its memory for the next one.
class UnitRows {
 public:
  struct Entry {
    std::uint32_t column;
    std::uint32_t bits;  // of the value, as stored
  };

  UnitRows(const PackedView& shape, bool negative_zeros, std::span<UnpackedRow> places, std::span<UnpackedUnit> units)
      : rows_(shape.rows),
        cols_(shape.cols),
        type_(shape.value_type),
        negative_zeros_(negative_zeros),
        places_(places),
        units_(units) {}

  // A unit of so many rows, all empty as yet.
  void begin(std::uint32_t unit, std::size_t rows);

  // Room behind a row's last nonzero for `count` more, of which take() says how many have been written.
  Entry* room(std::size_t row, std::size_t count) {
    Row& to = unit_rows_[row];
    if (to.capacity - to.size < count) grow(to, count);
    return to.entries.get() + to.size;
  }
  void take(std::size_t row, const Entry* end) {
    unit_rows_[row].size = static_cast<std::size_t>(end - unit_rows_[row].entries.get());
  }
  void add(std::size_t row, std::uint32_t column, std::uint32_t bits) {
    *room(row, 1) = {column, bits};
    ++unit_rows_[row].size;
  }
  std::size_t size(std::size_t row) const { return unit_rows_[row].size; }

  // Ends the unit: row i is row matrix_rows[i] of the weight, or empty and behind the last one.
  //   Error: kInvalidInput for columns that stand twice or lie outside, and for values that are not finite, or
  //   zeros of the other sign than the format has.
  Status store(std::span<const std::int64_t> matrix_rows);
  // The same where they are neighbours.
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
  std::vector<Row> unit_rows_;  // the first unit_size_ are the unit's
  std::vector<std::int64_t> neighbours_;
  std::vector<std::uint64_t> mask_;  // of columns, all 0 between calls
  std::vector<std::uint32_t> bits_;  // by column
};

// All rows of a packed weight.
class UnpackedRows {
 public:
  // negative_zeros: PackedFormat's; values come out as +0. Errors: those of `reader`, whose bounds must have been
  // checked.
  static Result<UnpackedRows> read(const PackedView& shape, const PackedReader& reader, bool negative_zeros,
                                   int threads);

  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t nnz() const { return offsets_.back(); }
  std::span<const std::int64_t> offsets() const { return offsets_; }  // [rows + 1]
  std::int64_t length(std::int64_t row) const { return offsets_[row + 1] - offsets_[row]; }

  CsrMatrix matrix() const;
  // As CsrMatrix has it.
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
