#include "matrix/matrix_market.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include "matrix/csr_memory.h"
#include "matrix/random_values.h"
#include "matrix/text_fields.h"
#include "matrix/triplets.h"

namespace sparsmith {
namespace {

class Reader {
 public:
  Reader(std::string_view text, std::uint64_t seed, std::int64_t max_bytes)
      : text_(text), lines_(text), seed_(seed), max_bytes_(max_bytes) {}

  Result<CsrMatrix> read() {
    SPARSMITH_RETURN_IF_ERROR(read_banner());
    SPARSMITH_RETURN_IF_ERROR(read_size());
    SPARSMITH_RETURN_IF_ERROR(coordinate_ ? read_coordinates() : read_array());
    std::string_view line;
    if (next_content_line(line)) return error("more entries follow than the size line announces");
    SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, csr_from_triplets(triplets_, DataType::kFloat32));
    if (pattern_) draw_values(matrix, seed_);
    return matrix;
  }

 private:
  Status error(const std::string& message) const {
    return invalid_input(fmt::format("line {}: {}", lines_.number(), message));
  }

  // Skips comments and blank lines.
  bool next_content_line(std::string_view& line) {
    while (lines_.next(line)) {
      if (!line.starts_with('%') && line.find_first_not_of(" \t") != std::string_view::npos) return true;
    }
    return false;
  }

  Status read_banner() {
    std::string_view line;
    if (!lines_.next(line) || !line.starts_with("%%MatrixMarket")) {
      return invalid_input(
          "line 1: expected the banner '%%MatrixMarket matrix ...'; the values cannot be read without it");
    }
    std::string lower(line);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    FieldReader fields(lower);
    std::array<std::string_view, 5> words;
    for (std::string_view& word : words)
      if (!fields.next(word)) return error("the banner must name object, format, field and symmetry");
    const auto& [banner, object, format, field, symmetry] = words;
    if (object != "matrix")
      return error(fmt::format("object '{}' is not supported; expected 'matrix'", excerpt(object)));
    if (format != "coordinate" && format != "array") return error(fmt::format("unknown format '{}'", excerpt(format)));
    coordinate_ = format == "coordinate";
    if (field == "complex" || symmetry == "hermitian") {
      return unsupported(fmt::format("line 1: {} matrices are not supported; weights are real",
                                     field == "complex" ? field : symmetry));
    }
    pattern_ = field == "pattern";
    integer_ = field == "integer";
    if (!pattern_ && !integer_ && field != "real" && field != "double") {
      return error(fmt::format("unknown field '{}'", excerpt(field)));
    }
    if (pattern_ && !coordinate_) return error("an array cannot be a pattern");
    if (symmetry != "general" && symmetry != "symmetric" && symmetry != "skew-symmetric")
      return error(fmt::format("unknown symmetry '{}'", excerpt(symmetry)));
    mirror_ = symmetry == "general" ? 0 : symmetry == "symmetric" ? 1 : -1;
    if (pattern_ && mirror_ < 0) return error("a pattern cannot be skew-symmetric");
    return {};
  }

  Status read_size() {
    std::string_view line;
    if (!next_content_line(line)) return error("the file ends before the size line");
    FieldReader fields(line);
    const char* const expected = coordinate_ ? "rows, columns and entries" : "rows and columns";
    const auto number = [&](std::int64_t& value) {
      std::string_view field;
      const auto parsed = fields.next(field) ? parse_number<std::int64_t>(field) : std::nullopt;
      if (parsed) value = *parsed;
      return parsed && value >= 0;
    };
    if (!number(triplets_.rows) || !number(triplets_.cols) || (coordinate_ && !number(entries_)) || !fields.at_end()) {
      return error(fmt::format("the size line must hold the numbers of {}", expected));
    }
    SPARSMITH_RETURN_IF_ERROR(
        check_matrix_shape(triplets_.rows, triplets_.cols).annotate(fmt::format("line {}", lines_.number())));
    if (mirror_ != 0 && triplets_.rows != triplets_.cols) {
      return error(fmt::format("a matrix of {} x {} cannot be symmetric", triplets_.rows, triplets_.cols));
    }
    const auto [rows, cols] = std::tie(triplets_.rows, triplets_.cols);
    if (!coordinate_) entries_ = mirror_ == 0 ? rows * cols : rows * (rows + mirror_) / 2;
    return check_entries_fit();
  }

  // An entry is a line of at least a digit a number; only the last may lack its end.
  Status check_entries_fit() {
    const std::int64_t entry_bytes = !coordinate_ ? 2 : pattern_ ? 4 : 6;
    if (entries_ > (static_cast<std::int64_t>(text_.size()) + 1) / entry_bytes) {
      return error(fmt::format("{} entries do not fit a file of {} bytes", entries_, text_.size()));
    }
    const std::int64_t stored = mirror_ == 0 ? entries_ : 2 * entries_;
    SPARSMITH_RETURN_IF_ERROR(check_csr_memory(triplets_.rows, stored, max_bytes_));
    triplets_.reserve(stored);
    return {};
  }

  template <class T>
  Result<T> next_number(FieldReader& fields, std::string_view what) const {
    std::string_view field;
    if (!fields.next(field)) return error(fmt::format("the {} is missing", what));
    const std::optional<T> number = parse_number<T>(field);
    return number ? Result<T>(*number) : error(fmt::format("'{}' is no {} in range", excerpt(field), what));
  }

  Result<double> next_value(FieldReader& fields) const {
    if (!integer_) return next_number<double>(fields, "real value");
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t value, next_number<std::int64_t>(fields, "integer value"));
    return static_cast<double>(value);
  }

  Result<std::int64_t> next_index(FieldReader& fields, std::string_view what, std::int64_t limit) const {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t number, next_number<std::int64_t>(fields, what));
    if (number >= 1 && number <= limit) return number - 1;
    return error(fmt::format("{} {} is outside of [1, {}]", what, number, limit));
  }

  Status add(std::int64_t row, std::int64_t column, double value) {
    if (mirror_ != 0) {
      if (row < column) return error("an entry above the diagonal of a symmetric matrix");
      if (mirror_ < 0 && row == column) return error("an entry on the diagonal of a skew-symmetric matrix");
      if (row != column) triplets_.add(column, row, mirror_ * value);
    }
    triplets_.add(row, column, value);
    return {};
  }

  Result<FieldReader> next_entry(std::int64_t number) {
    std::string_view line;
    if (!next_content_line(line)) return error(fmt::format("the file ends after {} of {} entries", number, entries_));
    return FieldReader(line);
  }

  Status read_coordinates() {
    for (std::int64_t entry = 0; entry < entries_; ++entry) {
      SPARSMITH_ASSIGN_OR_RETURN(FieldReader fields, next_entry(entry));
      SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t row, next_index(fields, "row index", triplets_.rows));
      SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t column, next_index(fields, "column index", triplets_.cols));
      SPARSMITH_ASSIGN_OR_RETURN(const double value, pattern_ ? Result<double>(1) : next_value(fields));
      if (!fields.at_end()) return error("an entry holds more fields than expected");
      SPARSMITH_RETURN_IF_ERROR(add(row, column, value));
    }
    return {};
  }

  // Column by column; of a symmetric matrix the part of each column from the diagonal down.
  Status read_array() {
    std::int64_t entry = 0;
    for (std::int64_t column = 0; column < triplets_.cols; ++column) {
      const std::int64_t first = mirror_ == 0 ? 0 : mirror_ < 0 ? column + 1 : column;
      for (std::int64_t row = first; row < triplets_.rows; ++row, ++entry) {
        SPARSMITH_ASSIGN_OR_RETURN(FieldReader fields, next_entry(entry));
        SPARSMITH_ASSIGN_OR_RETURN(const double value, next_value(fields));
        if (!fields.at_end()) return error("an entry of a real array must be one number");
        SPARSMITH_RETURN_IF_ERROR(add(row, column, value));
      }
    }
    return {};
  }

  std::string_view text_;
  LineReader lines_;
  std::uint64_t seed_;
  std::int64_t max_bytes_;
  bool coordinate_ = true;
  bool pattern_ = false;
  bool integer_ = false;
  int mirror_ = 0;  // what an entry below the diagonal counts above it: 1 if symmetric, -1 if skew-symmetric
  Triplets triplets_;
  std::int64_t entries_ = 0;
};

}  // namespace

Result<CsrMatrix> parse_matrix_market(std::string_view text, std::uint64_t seed, std::int64_t max_bytes) {
  return Reader(text, seed, max_bytes).read();
}

}  // namespace sparsmith
