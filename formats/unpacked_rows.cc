#include "formats/unpacked_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/half.h"
#include "base/hash.h"
#include "base/parallel_for.h"
#include "formats/packed_reader.h"

namespace sparsmith {
namespace {

using Entry = UnitRows::Entry;

bool ascends(std::span<const Entry> entries) {
  bool result = true;
  for (std::size_t i = 1; i < entries.size(); ++i) result &= entries[i - 1].column < entries[i].column;
  return result;
}

int column_bytes(std::int64_t cols) { return cols <= 65536 ? 2 : 4; }

template <class Column>
void write_columns(std::span<const Entry> entries, std::byte* to) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto column = static_cast<Column>(entries[i].column);
    std::memcpy(to + i * sizeof(Column), &column, sizeof(Column));
  }
}

// False where one is infinite, no number or a zero of another sign than `negative_zeros` says. `infinity`: its bits.
template <class Bits>
bool write_values(std::span<const Entry> entries, std::int32_t infinity, bool negative_zeros, std::byte* to) {
  constexpr std::uint32_t kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  const auto other_zero = negative_zeros ? Bits{0} : static_cast<Bits>(~kMagnitude);
  std::int32_t wrong = 0;  // in its sign
  bool other = false;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto stored = static_cast<Bits>(entries[i].bits);
    const auto magnitude = static_cast<std::int32_t>(stored & kMagnitude);
    wrong |= infinity - 1 - magnitude;
    other |= stored == other_zero;
    const auto bits = magnitude == 0 ? Bits{0} : stored;
    std::memcpy(to + i * sizeof(Bits), &bits, sizeof(Bits));
  }
  return wrong >= 0 && !other;
}

// False where one is the code that no coding has.
bool write_codes(std::span<const Entry> entries, std::byte* to) {
  bool other = false;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    to[i] = static_cast<std::byte>(entries[i].bits);
    other |= to[i] == std::byte{0x80};
  }
  return !other;
}

// Calls visit(numbers) for blocks of `count` numbers of type From, made such of type To.
template <class From, class To, class Visit, class Convert>
void visit_blocks(const std::byte* from, std::uint64_t count, const Visit& visit, const Convert& convert) {
  constexpr std::uint64_t kBlock = 1024;
  To block[kBlock];
  for (std::uint64_t first = 0; first < count; first += kBlock) {
    const std::uint64_t length = std::min(kBlock, count - first);
    for (std::uint64_t i = 0; i < length; ++i) {
      From number;
      std::memcpy(&number, from + (first + i) * sizeof(From), sizeof(From));
      block[i] = convert(number);
    }
    visit(std::span<const To>(block, length));
  }
}

// Rows that are not much longer, or this wide at most, are sorted by way of a bit for each column.
constexpr std::int64_t kMaskColumns = std::int64_t{1} << 18;
constexpr std::size_t kShortRow = 24;

}  // namespace

void UnitRows::begin(std::uint32_t unit, std::size_t rows) {
  unit_ = unit;
  unit_size_ = rows;
  if (unit_rows_.size() < rows) unit_rows_.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) unit_rows_[row].size = 0;
}

void UnitRows::grow(Row& row, std::size_t count) {
  const std::size_t capacity = std::max(row.size + count, row.capacity + row.capacity / 2);
  auto entries = std::make_unique_for_overwrite<Entry[]>(capacity);
  std::copy_n(row.entries.get(), row.size, entries.get());
  row.entries = std::move(entries);
  row.capacity = capacity;
}

// False where a column stands twice or lies outside.
bool UnitRows::sort(std::span<Entry> entries) {
  for (const Entry& entry : entries)
    if (entry.column >= cols_) return false;
  if (entries.size() < kShortRow || (cols_ > kMaskColumns && cols_ > 8 * std::ssize(entries))) {
    std::ranges::sort(entries, {}, &Entry::column);
    return ascends(entries);
  }
  if (mask_.empty()) {
    mask_.resize(static_cast<std::size_t>(cols_) / 64 + 1);
    bits_.resize(cols_);
  }
  std::uint64_t twice = 0;
  for (const Entry& entry : entries) {
    std::uint64_t& word = mask_[entry.column / 64];
    const std::uint64_t bit = std::uint64_t{1} << entry.column % 64;
    twice |= word & bit;
    word |= bit;
    bits_[entry.column] = entry.bits;
  }
  Entry* to = entries.data();
  for (std::size_t w = 0; w < mask_.size(); ++w) {
    for (std::uint64_t word = std::exchange(mask_[w], 0); word != 0; word &= word - 1) {
      const auto column = static_cast<std::uint32_t>(64 * w) + static_cast<std::uint32_t>(std::countr_zero(word));
      *to++ = {column, bits_[column]};
    }
  }
  return twice == 0;
}

Status UnitRows::store(std::span<const std::int64_t> matrix_rows) {
  std::size_t total = 0;
  for (std::size_t row = 0; row < unit_size_; ++row) total += unit_rows_[row].size;
  UnpackedUnit& unit = units_[unit_];
  unit.columns = std::make_unique_for_overwrite<std::byte[]>(total * static_cast<std::size_t>(column_bytes(cols_)));
  unit.values = std::make_unique_for_overwrite<std::byte[]>(total * size_of(type_));
  std::size_t first = 0;
  for (std::size_t i = 0; i < unit_size_; ++i) {
    const std::span<Entry> entries(unit_rows_[i].entries.get(), unit_rows_[i].size);
    const std::int64_t row = matrix_rows[i];
    if (row >= rows_) {
      if (!entries.empty()) return invalid_input(fmt::format("row {} of {} has a nonzero", row, rows_));
      continue;
    }
    SPARSMITH_RETURN_IF_ERROR(store_row(entries, row, first));
    places_[row] = {unit_, static_cast<std::uint32_t>(entries.size()), first};
    first += entries.size();
  }
  return {};
}

Status UnitRows::store_from(std::int64_t first_row) {
  neighbours_.resize(unit_size_);
  std::iota(neighbours_.begin(), neighbours_.end(), first_row);
  return store(neighbours_);
}

Status UnitRows::store_row(std::span<Entry> entries, std::int64_t row, std::size_t first) {
  if (entries.empty()) return {};
  if ((!ascends(entries) && !sort(entries)) || entries.back().column >= cols_)
    return invalid_input(fmt::format("row {}: a column stands twice, or is none of {}", row, cols_));
  const UnpackedUnit& unit = units_[unit_];
  if (column_bytes(cols_) == 2) {
    write_columns<std::uint16_t>(entries, unit.columns.get() + first * 2);
  } else {
    write_columns<std::uint32_t>(entries, unit.columns.get() + first * 4);
  }
  std::byte* const values = unit.values.get() + first * size_of(type_);
  const bool sound =
      type_ == DataType::kInt8      ? write_codes(entries, values)
      : type_ == DataType::kFloat32 ? write_values<std::uint32_t>(entries, 0x7F800000, negative_zeros_, values)
      : type_ == DataType::kFloat16 ? write_values<std::uint16_t>(entries, 0x7C00, negative_zeros_, values)
                                    : write_values<std::uint16_t>(entries, 0x7F80, negative_zeros_, values);
  return sound ? Status{}
               : invalid_input(
                     fmt::format("row {}: a stored value is not finite, a zero of the wrong sign or no code", row));
}

Result<UnpackedRows> UnpackedRows::read(const PackedView& shape, const PackedReader& reader, bool negative_zeros,
                                        int threads) {
  UnpackedRows result;
  result.cols_ = shape.cols;
  result.type_ = shape.value_type;
  result.rows_.resize(shape.rows);
  result.units_.resize(reader.units());
  std::atomic<std::int64_t> next = 0;
  const std::int64_t workers = threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  const Status status = check_ranges(workers, 1, threads, [&](std::int64_t, std::int64_t) {
    UnitRows rows(shape, negative_zeros, result.rows_, result.units_);
    for (std::int64_t unit = next++; unit < reader.units(); unit = next++)
      SPARSMITH_RETURN_IF_ERROR(reader.read(unit, rows));
    return Status{};
  });
  if (!status.ok()) return status;
  result.offsets_.reserve(result.rows_.size() + 1);
  result.offsets_.push_back(0);
  for (const UnpackedRow& row : result.rows_) result.offsets_.push_back(result.offsets_.back() + row.length);
  return result;
}

// Calls visit(unit, first, count) for the nonzeros of all rows in order, of as many at once as are neighbours.
template <class Visit>
void UnpackedRows::each_span(const Visit& visit) const {
  for (std::size_t row = 0; row < rows_.size();) {
    const UnpackedRow& from = rows_[row];
    std::uint64_t count = 0;
    for (; row < rows_.size() && rows_[row].unit == from.unit && rows_[row].first == from.first + count; ++row)
      count += rows_[row].length;
    if (count > 0) visit(units_[from.unit], from.first, count);
  }
}

template <class Visit>
void UnpackedRows::each_column_block(const Visit& visit) const {
  each_span([&](const UnpackedUnit& unit, std::uint64_t first, std::uint64_t count) {
    const auto same = [](std::uint32_t column) { return column; };
    if (column_bytes(cols_) == 2) {
      visit_blocks<std::uint16_t, std::uint32_t>(unit.columns.get() + first * 2, count, visit, same);
    } else {
      visit_blocks<std::uint32_t, std::uint32_t>(unit.columns.get() + first * 4, count, visit, same);
    }
  });
}

template <class Visit>
void UnpackedRows::each_value_block(const Visit& visit) const {
  each_span([&](const UnpackedUnit& unit, std::uint64_t first, std::uint64_t count) {
    const std::byte* from = unit.values.get() + first * size_of(type_);
    switch (type_) {
      case DataType::kFloat16:  // not the function's address, which would not be vectorised
        visit_blocks<std::uint16_t, float>(from, count, visit,
                                           [](std::uint16_t bits) { return float_from_fp16(bits); });
        break;
      case DataType::kBFloat16:
        visit_blocks<std::uint16_t, float>(from, count, visit,
                                           [](std::uint16_t bits) { return float_from_bf16(bits); });
        break;
      case DataType::kInt8:
        visit_blocks<std::int8_t, float>(from, count, visit, [](std::int8_t code) { return static_cast<float>(code); });
        break;
      default: visit_blocks<float, float>(from, count, visit, [](float value) { return value; });
    }
  });
}

CsrMatrix UnpackedRows::matrix() const {
  CsrMatrix matrix{{rows(), cols_, offsets_}, type_};
  matrix.column_indices.reserve(nnz());
  matrix.values.reserve(nnz());
  each_column_block([&](std::span<const std::uint32_t> columns) {
    matrix.column_indices.insert(matrix.column_indices.end(), columns.begin(), columns.end());
  });
  each_value_block(
      [&](std::span<const float> values) { matrix.values.insert(matrix.values.end(), values.begin(), values.end()); });
  return matrix;
}

PackedClaim UnpackedRows::claim(int threads) const {
  std::string columns_hash;
  std::string value_hash;
  const auto hash = [&](std::int64_t which) {
    HashStream stream;
    const auto add = [&](const auto& block) { stream.add(std::as_bytes(block)); };
    if (which == 0) {
      each_column_block(add);
    } else {
      each_value_block(add);
    }
    (which == 0 ? columns_hash : value_hash) = stream.text();
  };
  parallel_each(2, hash, 1, threads);
  const std::string offsets_hash = hash_bytes(std::as_bytes(std::span(offsets_)));
  return {nnz(), pattern_hash_of(rows(), cols_, offsets_hash, columns_hash), value_hash};
}

}  // namespace sparsmith
