#include "matrix/smtx.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "matrix/csr_memory.h"
#include "matrix/random_values.h"
#include "matrix/text_fields.h"

namespace sparsmith {
namespace {

// The numbers of the file, comments left out, wherever its lines break.
class NumberReader {
 public:
  explicit NumberReader(std::string_view text) : lines_(text), fields_("") {}

  // The next number, which must lie in [0, limit]. `what` names it in messages.
  Result<std::int64_t> next(std::string_view what, std::int64_t limit) {
    std::string_view field;
    if (!next_field(field)) return error(fmt::format("the file ends before {}", what));
    const std::optional<std::int64_t> number = parse_number<std::int64_t>(field);
    if (!number) return error(fmt::format("'{}' is no number; expected {}", excerpt(field), what));
    if (*number < 0 || *number > limit) return error(fmt::format("{} is {}, outside of [0, {}]", what, *number, limit));
    return *number;
  }

  Status expect_end() {
    std::string_view field;
    if (next_field(field)) return error(fmt::format("'{}' follows after the last column index", excerpt(field)));
    return {};
  }

  Status error(const std::string& message) const {
    return invalid_input(fmt::format("line {}: {}", lines_.number(), message));
  }

 private:
  bool next_field(std::string_view& field) {
    while (!fields_.next(field)) {
      std::string_view line;
      if (!lines_.next(line)) return false;
      fields_ = FieldReader(line.starts_with('%') ? "" : line, ", \t");
    }
    return true;
  }

  LineReader lines_;
  FieldReader fields_;
};

Status read_header(NumberReader& numbers, std::size_t text_size, CsrMatrix& matrix, std::int64_t& nnz) {
  SPARSMITH_ASSIGN_OR_RETURN(matrix.rows, numbers.next("the number of rows", kMaxMatrixDimension));
  SPARSMITH_ASSIGN_OR_RETURN(matrix.cols, numbers.next("the number of columns", kMaxMatrixDimension));
  SPARSMITH_ASSIGN_OR_RETURN(nnz, numbers.next("the number of nonzeros", matrix.rows * matrix.cols));
  // Each number takes a digit and a separator, but for the very last.
  if (matrix.rows + 1 + nnz > static_cast<std::int64_t>(text_size / 2)) {
    return numbers.error(
        fmt::format("{} rows and {} nonzeros do not fit a file of {} bytes", matrix.rows, nnz, text_size));
  }
  return {};
}

Status read_row_offsets(NumberReader& numbers, std::int64_t nnz, CsrMatrix& matrix) {
  matrix.row_offsets.resize(matrix.rows + 1);
  std::int64_t previous = 0;
  for (std::int64_t row = 0; row <= matrix.rows; ++row) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset, numbers.next("a row offset", nnz));
    if (row == 0 && offset != 0) return numbers.error(fmt::format("the first row offset is {}, not 0", offset));
    if (offset < previous) return numbers.error(fmt::format("row offset {} is {}, after {}", row, offset, previous));
    matrix.row_offsets[row] = previous = offset;
  }
  if (previous != nnz) return numbers.error(fmt::format("the last row offset is {} with {} nonzeros", previous, nnz));
  return {};
}

Status read_columns(NumberReader& numbers, CsrMatrix& matrix) {
  const auto begin = matrix.column_indices.begin();
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t column, numbers.next("a column index", matrix.cols - 1));
      matrix.column_indices[i] = static_cast<std::uint32_t>(column);
    }
    const auto first = begin + matrix.row_offsets[row];
    const auto last = begin + matrix.row_offsets[row + 1];
    if (!std::is_sorted(first, last)) std::sort(first, last);
    const auto twice = std::adjacent_find(first, last);
    if (twice != last) return numbers.error(fmt::format("row {} holds column {} twice", row, *twice));
  }
  return {};
}

}  // namespace

Result<CsrMatrix> parse_smtx(std::string_view text, std::uint64_t seed, std::int64_t max_bytes) {
  NumberReader numbers(text);
  CsrMatrix matrix;
  std::int64_t nnz = 0;
  SPARSMITH_RETURN_IF_ERROR(read_header(numbers, text.size(), matrix, nnz));
  SPARSMITH_RETURN_IF_ERROR(check_csr_memory(matrix.rows, nnz, max_bytes));
  SPARSMITH_RETURN_IF_ERROR(read_row_offsets(numbers, nnz, matrix));
  matrix.column_indices.resize(nnz);
  SPARSMITH_RETURN_IF_ERROR(read_columns(numbers, matrix));
  SPARSMITH_RETURN_IF_ERROR(numbers.expect_end());
  draw_values(matrix, seed);
  return matrix;
}

std::string smtx_text(const CsrMatrix& matrix) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}, {}, {}\n{}\n", matrix.rows, matrix.cols, matrix.nnz(), fmt::join(matrix.row_offsets, " "));
  fmt::format_to(out, "{}\n", fmt::join(matrix.column_indices, " "));
  return fmt::to_string(text);
}

}  // namespace sparsmith
