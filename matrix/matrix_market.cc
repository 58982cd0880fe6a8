#include "matrix/matrix_market.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "matrix/csr_memory.h"
#include "matrix/random_values.h"
#include "matrix/text_fields.h"
#include "matrix/triplets.h"

namespace sparsmith {
namespace {

enum class Symmetry { kGeneral, kSymmetric, kSkewSymmetric };

struct Banner {
  bool coordinate = true;
  bool pattern = false;
  bool integer = false;
  Symmetry symmetry = Symmetry::kGeneral;
};

class Reader {
 public:
  Reader(std::string_view text, std::uint64_t seed, std::int64_t max_bytes)
      : text_(text), lines_(text), seed_(seed), max_bytes_(max_bytes) {}

  Result<CsrMatrix> read() {
    SPARSMITH_RETURN_IF_ERROR(read_banner());
    SPARSMITH_RETURN_IF_ERROR(read_size());
    SPARSMITH_RETURN_IF_ERROR(banner_.coordinate ? read_coordinates() : read_array());
    std::string_view line;
    if (next_content_line(line)) return error("more entries follow than the size line announces");
    SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, csr_from_triplets(triplets_, DataType::kFloat32));
    if (banner_.pattern) draw_values(matrix, seed_);
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
    std::string_view banner, object, format, field, symmetry;
    if (!fields.next(banner) || !fields.next(object) || !fields.next(format) || !fields.next(field) ||
        !fields.next(symmetry)) {
      return error("the banner must name object, format, field and symmetry");
    }
    if (object != "matrix")
      return error(fmt::format("object '{}' is not supported; expected 'matrix'", excerpt(object)));
    if (format != "coordinate" && format != "array") return error(fmt::format("unknown format '{}'", excerpt(format)));
    banner_.coordinate = format == "coordinate";
    if (field == "complex" || symmetry == "hermitian") {
      return unsupported(fmt::format("line 1: {} matrices are not supported; weights are real",
                                     field == "complex" ? field : symmetry));
    }
    banner_.pattern = field == "pattern";
    banner_.integer = field == "integer";
    if (!banner_.pattern && !banner_.integer && field != "real" && field != "double") {
      return error(fmt::format("unknown field '{}'", excerpt(field)));
    }
    if (banner_.pattern && !banner_.coordinate) return error("an array cannot be a pattern");
    return read_symmetry(symmetry);
  }

  Status read_symmetry(std::string_view symmetry) {
    if (symmetry == "general")
      banner_.symmetry = Symmetry::kGeneral;
    else if (symmetry == "symmetric")
      banner_.symmetry = Symmetry::kSymmetric;
    else if (symmetry == "skew-symmetric")
      banner_.symmetry = Symmetry::kSkewSymmetric;
    else
      return error(fmt::format("unknown symmetry '{}'", excerpt(symmetry)));
    if (banner_.pattern && banner_.symmetry == Symmetry::kSkewSymmetric)
      return error("a pattern cannot be skew-symmetric");
    return {};
  }

  Status read_size() {
    std::string_view line;
    if (!next_content_line(line)) return error("the file ends before the size line");
    FieldReader fields(line);
    const char* const expected = banner_.coordinate ? "rows, columns and entries" : "rows and columns";
    const auto number = [&](std::int64_t& value) {
      std::string_view field;
      const auto parsed = fields.next(field) ? parse_number<std::int64_t>(field) : std::nullopt;
      if (parsed) value = *parsed;
      return parsed && value >= 0;
    };
    if (!number(triplets_.rows) || !number(triplets_.cols) || (banner_.coordinate && !number(entries_)) ||
        !fields.at_end()) {
      return error(fmt::format("the size line must hold the numbers of {}", expected));
    }
    Status shape = check_matrix_shape(triplets_.rows, triplets_.cols);
    if (!shape.ok()) return shape.annotate(fmt::format("line {}", lines_.number()));
    if (banner_.symmetry != Symmetry::kGeneral && triplets_.rows != triplets_.cols) {
      return error(fmt::format("a matrix of {} x {} cannot be symmetric", triplets_.rows, triplets_.cols));
    }
    if (!banner_.coordinate) entries_ = array_entries();
    return check_entries_fit();
  }

  std::int64_t array_entries() const {
    const std::int64_t n = triplets_.rows;
    if (banner_.symmetry == Symmetry::kSymmetric) return n * (n + 1) / 2;
    if (banner_.symmetry == Symmetry::kSkewSymmetric) return n * (n - 1) / 2;
    return n * triplets_.cols;
  }

  // An entry is a line of at least a digit a number; only the last may lack its end.
  Status check_entries_fit() {
    const std::int64_t entry_bytes = !banner_.coordinate ? 2 : banner_.pattern ? 4 : 6;
    if (entries_ > (static_cast<std::int64_t>(text_.size()) + 1) / entry_bytes) {
      return error(fmt::format("{} entries do not fit a file of {} bytes", entries_, text_.size()));
    }
    const std::int64_t stored = banner_.symmetry == Symmetry::kGeneral ? entries_ : 2 * entries_;
    SPARSMITH_RETURN_IF_ERROR(check_csr_memory(triplets_.rows, stored, max_bytes_));
    triplets_.row_indices.reserve(stored);
    triplets_.column_indices.reserve(stored);
    triplets_.values.reserve(stored);
    return {};
  }

  Status parse_value(FieldReader& fields, double& value) const {
    std::string_view field;
    if (!fields.next(field)) return error("the value is missing");
    std::optional<double> number;
    if (banner_.integer) {
      const auto integer = parse_number<std::int64_t>(field);
      if (integer) number = static_cast<double>(*integer);
    } else {
      number = parse_number<double>(field);
    }
    if (!number)
      return error(fmt::format("'{}' is no {} number in range", excerpt(field), banner_.integer ? "integer" : "real"));
    value = *number;
    return {};
  }

  Status parse_index(FieldReader& fields, std::string_view what, std::int64_t limit, std::int64_t& index) const {
    std::string_view field;
    if (!fields.next(field)) return error(fmt::format("the {} index is missing", what));
    const auto number = parse_number<std::int64_t>(field);
    if (!number) return error(fmt::format("'{}' is no {} index", excerpt(field), what));
    if (*number < 1 || *number > limit)
      return error(fmt::format("{} index {} is outside of [1, {}]", what, *number, limit));
    index = *number - 1;
    return {};
  }

  Status add(std::int64_t row, std::int64_t column, double value) {
    if (banner_.symmetry != Symmetry::kGeneral) {
      if (row < column) return error("an entry above the diagonal of a symmetric matrix");
      if (banner_.symmetry == Symmetry::kSkewSymmetric && row == column)
        return error("an entry on the diagonal of a skew-symmetric matrix");
      if (row != column) triplets_.add(column, row, banner_.symmetry == Symmetry::kSymmetric ? value : -value);
    }
    triplets_.add(row, column, value);
    return {};
  }

  Status read_coordinates() {
    for (std::int64_t entry = 0; entry < entries_; ++entry) {
      std::string_view line;
      if (!next_content_line(line)) return error(fmt::format("the file ends after {} of {} entries", entry, entries_));
      FieldReader fields(line);
      std::int64_t row = 0;
      std::int64_t column = 0;
      double value = 1;
      SPARSMITH_RETURN_IF_ERROR(parse_index(fields, "row", triplets_.rows, row));
      SPARSMITH_RETURN_IF_ERROR(parse_index(fields, "column", triplets_.cols, column));
      if (!banner_.pattern) SPARSMITH_RETURN_IF_ERROR(parse_value(fields, value));
      if (!fields.at_end()) return error("an entry holds more fields than expected");
      SPARSMITH_RETURN_IF_ERROR(add(row, column, value));
    }
    return {};
  }

  // Column by column; of a symmetric matrix the part of each column from the diagonal down.
  Status read_array() {
    std::int64_t entry = 0;
    for (std::int64_t column = 0; column < triplets_.cols; ++column) {
      const std::int64_t first =
          banner_.symmetry == Symmetry::kGeneral ? 0 : column + (banner_.symmetry == Symmetry::kSkewSymmetric ? 1 : 0);
      for (std::int64_t row = first; row < triplets_.rows; ++row, ++entry) {
        std::string_view line;
        if (!next_content_line(line))
          return error(fmt::format("the file ends after {} of {} entries", entry, entries_));
        FieldReader fields(line);
        double value = 0;
        SPARSMITH_RETURN_IF_ERROR(parse_value(fields, value));
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
  Banner banner_;
  Triplets triplets_;
  std::int64_t entries_ = 0;
};

}  // namespace

Result<CsrMatrix> parse_matrix_market(std::string_view text, std::uint64_t seed, std::int64_t max_bytes) {
  return Reader(text, seed, max_bytes).read();
}

}  // namespace sparsmith
