#include "matrix/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/half.h"
#include "matrix/csr_memory.h"
#include "matrix/text_fields.h"

namespace sparsmith {
namespace {

static_assert(std::endian::native == std::endian::little, "the arrays are read as little-endian");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxDimensions = 32;  // NumPy's own limit

template <class T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// Reads the header, a Python dictionary of three known keys.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  Status parse(NpyArray& array) {
    bool descr = false;
    bool order = false;
    bool shape = false;
    if (!take('{')) return malformed();
    while (!take('}')) {
      std::string_view key;
      if (!take_string(key) || !take(':')) return malformed();
      if (key == "descr" && !descr)
        SPARSMITH_RETURN_IF_ERROR(parse_descr(array));
      else if (key == "fortran_order" && !order)
        SPARSMITH_RETURN_IF_ERROR(parse_order(array));
      else if (key == "shape" && !shape)
        SPARSMITH_RETURN_IF_ERROR(parse_shape(array));
      else
        return malformed();
      (key == "descr" ? descr : key == "shape" ? shape : order) = true;
      if (!take(',') && !rest_.starts_with('}')) return malformed();
      skip_blanks();
    }
    return descr && order && shape ? Status() : malformed();
  }

 private:
  static Status malformed() {
    return invalid_input("the .npy header is malformed; expected 'descr', 'fortran_order' and 'shape'");
  }

  void skip_blanks() {
    const std::size_t begin = rest_.find_first_not_of(" \n\t");
    rest_ = begin == std::string_view::npos ? std::string_view() : rest_.substr(begin);
  }

  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    skip_blanks();
    return true;
  }

  bool take_word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    skip_blanks();
    return true;
  }

  bool take_string(std::string_view& string) {
    if (!rest_.starts_with('\'') && !rest_.starts_with('"')) return false;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return false;
    string = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    skip_blanks();
    return true;
  }

  Status parse_descr(NpyArray& array) {
    std::string_view descr;
    if (!take_string(descr)) return unsupported("arrays of records are not supported; expected one element type");
    const auto size = descr.size() < 3 ? std::nullopt : parse_number<std::uint32_t>(descr.substr(2));
    if (!size || *size > (1U << 20))
      return unsupported(fmt::format("element type '{}' is not supported", excerpt(descr)));
    array.kind = descr[1];
    array.item_size = array.kind == 'U' ? std::size_t{4} * *size : *size;
    if (descr[0] == '>' && *size > 1)
      return unsupported(fmt::format("element type '{}' is big-endian; save it as little-endian", descr));
    const bool known = (array.kind == 'f' && (*size == 2 || *size == 4 || *size == 8)) ||
                       (array.kind == 'b' && *size == 1) ||
                       ((array.kind == 'i' || array.kind == 'u') && std::has_single_bit(*size) && *size <= 8) ||
                       ((array.kind == 'S' || array.kind == 'U') && *size > 0);
    if (!known) return unsupported(fmt::format("element type '{}' is not supported", excerpt(descr)));
    return {};
  }

  Status parse_order(NpyArray& array) {
    if (take_word("True"))
      array.fortran_order = true;
    else if (!take_word("False"))
      return malformed();
    return {};
  }

  Status parse_shape(NpyArray& array) {
    if (!take('(')) return malformed();
    while (!take(')')) {
      const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      const auto extent = parse_number<std::int64_t>(rest_.substr(0, digits));
      if (!extent || array.shape.size() == kMaxDimensions) return malformed();
      array.shape.push_back(*extent);
      rest_.remove_prefix(digits);
      if (!take(',') && !rest_.starts_with(')')) return malformed();
    }
    return {};
  }

  std::string_view rest_;
};

// Where the header's text lies, by format version.
Result<std::string_view> header_text(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic) || text.size() < 10) return invalid_input("no .npy file: its first bytes differ");
  const auto version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) return unsupported(fmt::format(".npy version {} is not supported", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t begin = 8 + length_bytes;
  if (text.size() < begin) return invalid_input("the .npy header is cut off");
  const std::size_t length = version == 1 ? load<std::uint16_t>(file.data() + 8) : load<std::uint32_t>(file.data() + 8);
  if (length > text.size() - begin) return invalid_input("the .npy header is cut off");
  return text.substr(begin, length);
}

}  // namespace

std::int64_t NpyArray::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

double NpyArray::real(std::int64_t index) const {
  const std::byte* at = data.data() + static_cast<std::size_t>(index) * item_size;
  if (kind == 'b') return load<std::uint8_t>(at) != 0 ? 1.0 : 0.0;
  if (kind == 'f') {
    if (item_size == 2) return float_from_fp16(load<std::uint16_t>(at));
    return item_size == 4 ? load<float>(at) : load<double>(at);
  }
  if (kind == 'u' && item_size == 8) return static_cast<double>(load<std::uint64_t>(at));
  return static_cast<double>(*integer(index));
}

std::optional<std::int64_t> NpyArray::integer(std::int64_t index) const {
  const std::byte* at = data.data() + static_cast<std::size_t>(index) * item_size;
  const bool is_signed = kind == 'i';
  switch (item_size) {
    case 1: return is_signed ? load<std::int8_t>(at) : load<std::uint8_t>(at);
    case 2: return is_signed ? load<std::int16_t>(at) : load<std::uint16_t>(at);
    case 4: return is_signed ? std::int64_t{load<std::int32_t>(at)} : std::int64_t{load<std::uint32_t>(at)};
    default: break;
  }
  const auto value = load<std::int64_t>(at);
  if (!is_signed && value < 0) return std::nullopt;
  return value;
}

std::string NpyArray::text() const {
  std::string result;
  const std::size_t step = kind == 'U' ? 4 : 1;
  for (std::size_t i = 0; i < std::min(item_size, data.size()); i += step) {
    const char c = static_cast<char>(data[i]);
    if (c == '\0') break;
    result.push_back(c);
  }
  return result;
}

Result<NpyArray> parse_npy(std::span<const std::byte> file) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::string_view header, header_text(file));
  NpyArray array;
  SPARSMITH_RETURN_IF_ERROR(HeaderParser(header).parse(array));
  array.data_offset =
      static_cast<std::size_t>(header.data() + header.size() - reinterpret_cast<const char*>(file.data()));
  std::uint64_t bytes = array.item_size;
  for (const std::int64_t extent : array.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      return invalid_input("the shape overflows");
  }
  const std::size_t available = file.size() - array.data_offset;
  if (bytes != available) {
    return invalid_input(fmt::format("shape ({}) takes {} bytes, but {} follow the header",
                                     fmt::join(array.shape, ", "), bytes, available));
  }
  array.data = file.subspan(array.data_offset);
  return array;
}

Result<CsrMatrix> csr_from_npy(const NpyArray& array, std::int64_t max_bytes) {
  if (array.shape.size() != 2)
    return unsupported(fmt::format("the array has {} dimensions; a weight has 2", array.shape.size()));
  if (array.kind == 'S' || array.kind == 'U') return unsupported("the array holds text, not numbers");
  CsrMatrix matrix;
  matrix.rows = array.shape[0];
  matrix.cols = array.shape[1];
  matrix.data_type = array.kind == 'f' && array.item_size == 2 ? DataType::kFloat16 : DataType::kFloat32;
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(matrix.rows, matrix.cols));
  SPARSMITH_RETURN_IF_ERROR(check_csr_memory(matrix.rows, array.elements(), max_bytes));
  matrix.row_offsets.reserve(matrix.rows + 1);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.cols; ++column) {
      const double exact = array.real(array.fortran_order ? column * matrix.rows + row : row * matrix.cols + column);
      const auto value = static_cast<float>(exact);
      if (value == 0.0F) continue;
      if (!std::isfinite(value)) {
        return invalid_input(
            fmt::format("the element in row {}, column {} is {}; a weight must be finite in fp32", row, column, exact));
      }
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(value);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace sparsmith
