#include "matrix/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/half.h"
#include "base/json_reader.h"
#include "base/json_text.h"
#include "matrix/csr_memory.h"
#include "matrix/text_fields.h"
#include "matrix/triplets.h"

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

// The header, a Python dictionary of texts, tuples of numbers, True and False, as JSON. Any other dictionary becomes
// JSON of another kind, or no JSON.
std::string json_of(std::string_view dictionary) {
  std::string json;
  for (const char c : dictionary) {
    const char closing = c == ')' ? ']' : c;
    if (closing == ']' || closing == '}') {  // a comma may stand in front
      json.resize(json.find_last_not_of(" \n\t") + 1);
      if (json.ends_with(',')) json.pop_back();
    }
    json += c == '\'' ? '"' : c == '(' ? '[' : closing == 'T' ? 't' : closing == 'F' ? 'f' : closing;
  }
  return json;
}

Status parse_descr(std::string_view descr, NpyArray& array) {
  const auto size = descr.size() < 3 ? std::nullopt : parse_number<std::uint32_t>(descr.substr(2));
  array.kind = descr.size() < 2 ? ' ' : descr[1];
  if (size && *size > 1 && descr[0] == '>')
    return unsupported(fmt::format("element type '{}' is big-endian; save it as little-endian", excerpt(descr)));
  const bool known =
      size && *size <= (1U << 20) &&
      ((array.kind == 'f' && (*size == 2 || *size == 4 || *size == 8)) || (array.kind == 'b' && *size == 1) ||
       ((array.kind == 'i' || array.kind == 'u') && std::has_single_bit(*size) && *size <= 8) ||
       ((array.kind == 'S' || array.kind == 'U') && *size > 0));
  if (!known) return unsupported(fmt::format("element type '{}' is not supported", excerpt(descr)));
  array.item_size = array.kind == 'U' ? std::size_t{4} * *size : *size;
  return {};
}

Status parse_header(std::string_view text, NpyArray& array) {
  const auto json = parse_json(json_of(text));
  if (!json.ok()) return json.status().annotate("the .npy header is malformed");
  JsonReader header(*json, "the .npy header is malformed", {"descr", "fortran_order", "shape"});
  if (header.has("descr") && (*json)["descr"].is_array())
    return unsupported("arrays of records are not supported; expected one element type");
  const std::string descr = header.text("descr");
  array.fortran_order = header.boolean("fortran_order");
  array.shape = header.integers("shape", 0, std::numeric_limits<std::int64_t>::max());
  if (array.shape.size() > kMaxDimensions) header.fail("shape", "has too many dimensions");
  SPARSMITH_RETURN_IF_ERROR(header.status());
  return parse_descr(descr, array);
}

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
  SPARSMITH_RETURN_IF_ERROR(parse_header(header, array));
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
  const std::int64_t rows = array.shape[0];
  const std::int64_t cols = array.shape[1];
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(rows, cols));
  SPARSMITH_RETURN_IF_ERROR(check_csr_memory(rows, array.elements(), max_bytes));
  Triplets triplets;
  triplets.rows = rows;
  triplets.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < cols; ++column) {
      const double value = array.real(array.fortran_order ? column * rows + row : row * cols + column);
      if (value != 0) triplets.add(row, column, value);
    }
  }
  return csr_from_triplets(triplets, array.data_type());
}

}  // namespace sparsmith
