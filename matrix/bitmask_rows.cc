// Reads weights of bits and values. Where the elements of a row begin is known from row_offsets, so that threads share
// the rows. Each row is checked against its part of row_offsets; all rows together then fit `compressed`.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "base/count_bits.h"
#include "base/parallel_for.h"
#include "matrix/bitmask_matrix.h"
#include "matrix/csr_memory.h"
#include "matrix/dense_matrix.h"
#include "matrix/mask_statistics.h"

namespace sparsmith {
namespace {

// Whether two of each four bits are set. Behind the last column groups are empty.
bool has_two_of_each_four(std::span<const std::uint64_t> mask, std::int64_t cols) {
  for (std::size_t i = 0; i < mask.size(); ++i) {
    std::uint64_t count = mask[i] - ((mask[i] >> 1) & 0x5555555555555555);
    count = (count & 0x3333333333333333) + ((count >> 2) & 0x3333333333333333);
    const std::int64_t columns = std::clamp<std::int64_t>(cols - static_cast<std::int64_t>(i) * 64, 0, 64);
    const std::uint64_t twos = 0x2222222222222222;
    if (count != (columns < 64 ? twos & ((std::uint64_t{1} << columns) - 1) : twos)) return false;
  }
  return true;
}

// The rows of a weight. Several threads may read.
class BitmaskRows {
 public:
  explicit BitmaskRows(const BitmaskMatrix& matrix)
      : matrix_(matrix), words_((matrix.cols + 63) / 64), mask_bytes_((matrix.cols + 7) / 8) {}

  std::int64_t words() const { return words_; }
  std::int64_t mask_bytes() const { return mask_bytes_; }

  // The first element of the row in `compressed`, as the file says; of the row behind the last one, their number.
  std::int64_t first(std::int64_t row) const {
    if (row == matrix_.rows) return matrix_.stored;
    if (matrix_.two_four) return row * (matrix_.cols / 2);
    std::int64_t offset = 0;
    std::memcpy(&offset, matrix_.row_offsets.data() + row * sizeof(offset), sizeof(offset));
    return offset;
  }

  // The bits of a row.
  void read_bits(std::int64_t row, std::uint64_t* mask) const {
    if (words_ == 0) return;
    mask[words_ - 1] = 0;
    std::memcpy(mask, matrix_.bitmask.data() + row * mask_bytes_, mask_bytes_);
  }

  // The bits of the nonzeros of a row. False when the parts contradict each other there, or an element is not finite.
  bool read(std::int64_t row, std::uint64_t* mask) const {
    const std::int64_t begin = first(row);
    const std::int64_t end = first(row + 1);
    if (begin < 0 || begin > end || end > matrix_.stored || (row == 0 && begin != 0)) return false;
    read_bits(row, mask);
    const std::span<std::uint64_t> words(mask, words_);
    if (matrix_.cols % 64 != 0 && words.back() >> (matrix_.cols % 64) != 0) return false;
    const std::int64_t bits = count_bits(words);
    if (bits != end - begin || (matrix_.two_four && !has_two_of_each_four(words, matrix_.cols))) return false;
    thread_local std::vector<std::uint64_t> nonzeros;  // of the stored elements
    nonzeros.resize((bits + 63) / 64);
    if (!nonzero_mask(elements(row), 0, nonzeros.data())) return false;
    if (count_bits(nonzeros) != bits) drop_zeros(nonzeros, words);
    return true;
  }

  // Columns and values of the `count` nonzeros of a row. REQUIRES: read() is true of it.
  void take(std::int64_t row, std::int64_t count, std::uint32_t* columns, float* values) const {
    thread_local std::vector<std::uint64_t> mask;
    thread_local std::vector<float> stored;
    const DenseMatrix row_elements = elements(row);
    const bool zeros = row_elements.cols != count;
    if (zeros) stored.resize(row_elements.cols);
    read_row(row_elements, 0, zeros ? stored.data() : values);
    mask.resize(words_);
    read_bits(row, mask.data());
    std::int64_t element = 0;
    for (std::int64_t i = 0; i < words_; ++i) {
      for (std::uint64_t word = mask[i]; word != 0; word &= word - 1) {
        if (zeros) {
          const float value = stored[element++];
          if (value == 0.0F) continue;
          *values++ = value;
        }
        *columns++ = static_cast<std::uint32_t>(i * 64 + std::countr_zero(word));
      }
    }
  }

 private:
  // The stored elements of a row, as a matrix of one row. REQUIRES: their places lie inside.
  DenseMatrix elements(std::int64_t row) const {
    return {matrix_.compressed.data() + first(row) * static_cast<std::int64_t>(size_of(matrix_.data_type)), 1,
            first(row + 1) - first(row), matrix_.data_type};
  }

  // Clears the bits of `mask` whose elements are 0.
  static void drop_zeros(const std::vector<std::uint64_t>& nonzeros, std::span<std::uint64_t> mask) {
    std::size_t element = 0;
    for (std::uint64_t& word : mask) {
      for (std::uint64_t left = word; left != 0; left &= left - 1, ++element)
        if ((nonzeros[element / 64] >> (element % 64) & 1) == 0) word &= ~(left & -left);
    }
  }

  const BitmaskMatrix& matrix_;
  const std::int64_t words_;
  const std::int64_t mask_bytes_;
};

// The first of the groups of four among the next `columns` columns that does not store two; nothing: all do.
std::optional<int> wrong_group(std::uint32_t bits, std::int64_t columns) {
  for (int first = 0; first < std::min<std::int64_t>(columns, 8); first += 4)
    if (std::popcount(bits >> first & 15) != 2) return first;
  return std::nullopt;
}

// The first error of a weight in the order of the bits. REQUIRES: some row is at fault.
Status first_error(const BitmaskMatrix& matrix) {
  const BitmaskRows rows(matrix);
  const DenseMatrix elements{matrix.compressed.data(), 1, matrix.stored, matrix.data_type};
  const std::byte* at = matrix.bitmask.data();
  std::int64_t next = 0;  // of `elements`
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto error = [row](std::string_view what) { return invalid_input(fmt::format("row {}: {}", row, what)); };
    if (rows.first(row) != next)
      return error(
          fmt::format("row_offsets says {}, and bitmask has {} bits in the rows above", rows.first(row), next));
    for (std::int64_t column = 0; column < matrix.cols; column += 8) {
      auto bits = std::to_integer<std::uint32_t>(*at++);
      const std::int64_t columns = matrix.cols - column;
      if (columns < 8 && bits >> columns != 0)
        return error(fmt::format("a bit of bitmask is set behind the last of {} columns", matrix.cols));
      if (const auto group = matrix.two_four ? wrong_group(bits, columns) : std::nullopt)
        return error(fmt::format("bitmask has {} of the four columns from {} on; a 2:4 weight has two",
                                 std::popcount(bits >> *group & 15), column + *group));
      if (std::popcount(bits) > matrix.stored - next)
        return error(fmt::format("bitmask has more bits than compressed has elements, {}", matrix.stored));
      for (; bits != 0; bits &= bits - 1) {
        const float value = elements.element(0, next++);
        if (std::isfinite(value)) continue;
        return invalid_input(fmt::format("the element in row {}, column {} is {}; a weight must be finite", row,
                                         column + std::countr_zero(bits), value));
      }
    }
  }
  if (next != matrix.stored) {
    return invalid_input(
        fmt::format("bitmask has {} bits in all, and compressed has {} elements", next, matrix.stored));
  }
  return internal_error("a row was called wrong and is not");
}

}  // namespace

Result<CsrMatrix> csr_from_bitmask(const BitmaskMatrix& matrix, std::int64_t max_bytes) {
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(matrix.rows, matrix.cols));
  SPARSMITH_RETURN_IF_ERROR(check_csr_memory(matrix.rows, matrix.stored, max_bytes));
  const BitmaskRows rows(matrix);
  const std::int64_t grain = grain_of_rows(rows.words() + (matrix.rows > 0 ? matrix.stored / matrix.rows : 0));
  CsrMatrix csr{{matrix.rows, matrix.cols}, matrix.data_type};
  csr.row_offsets.assign(matrix.rows + 1, 0);
  // A first pass checks and counts, so that the second fills each row's place.
  std::atomic<bool> wrong = matrix.rows == 0 && matrix.stored != 0;
  parallel_for(matrix.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint64_t> mask(rows.words());
    for (std::int64_t row = begin; row < end && !wrong; ++row) {
      if (!rows.read(row, mask.data())) wrong = true;
      csr.row_offsets[row + 1] = count_bits(mask);
    }
  });
  if (wrong) return first_error(matrix);
  for (std::int64_t row = 0; row < matrix.rows; ++row) csr.row_offsets[row + 1] += csr.row_offsets[row];
  csr.column_indices.resize(csr.row_offsets.back());
  csr.values.resize(csr.row_offsets.back());
  parallel_for(matrix.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = csr.row_offsets[row];
      rows.take(row, csr.row_length(row), csr.column_indices.data() + first, csr.values.data() + first);
    }
  });
  return csr;
}

Result<SparsityStatistics> compute_bitmask_statistics(const BitmaskMatrix& matrix, int threads,
                                                      const ReleasePart& release) {
  constexpr std::int64_t kChunkBytes = 128 << 10;  // of bits: a byte takes as long as eight dense elements
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(matrix.rows, matrix.cols));
  const BitmaskRows rows(matrix);
  PatternCounts counts(matrix);
  MaskedRows masked{.read = [&](std::int64_t row, std::uint64_t* mask) { return rows.read(row, mask); },
                    .row_bytes = rows.mask_bytes(),
                    .chunk_bytes = kChunkBytes};
  if (release) {
    masked.release = [&](std::int64_t begin, std::int64_t end) {
      release(matrix.bitmask.subspan(begin * rows.mask_bytes(), (end - begin) * rows.mask_bytes()));
      const std::int64_t first = rows.first(begin);
      const std::int64_t last = rows.first(end);
      if (first < 0 || first > last || last > matrix.stored) return;  // an error follows
      const auto size = static_cast<std::int64_t>(size_of(matrix.data_type));
      release(matrix.compressed.subspan(first * size, (last - first) * size));
    };
  }
  const bool wrong = count_masks(masked, threads, counts) < matrix.rows || (matrix.rows == 0 && matrix.stored != 0);
  if (release && !wrong) {
    for (const std::span<const std::byte> part : {matrix.bitmask, matrix.compressed, matrix.row_offsets}) release(part);
  }
  if (wrong) return first_error(matrix);
  return statistics_of(std::move(counts));
}

}  // namespace sparsmith
