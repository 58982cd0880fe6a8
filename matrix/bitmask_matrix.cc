#include "matrix/bitmask_matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "matrix/csr_memory.h"
#include "matrix/dense_matrix.h"

namespace sparsmith {
namespace {

std::int64_t integer_at(std::span<const std::byte> integers, std::int64_t index) {
  std::int64_t integer = 0;
  std::memcpy(&integer, integers.data() + index * sizeof(integer), sizeof(integer));
  return integer;
}

Status error_of(std::string_view module, BitmaskPart part, std::string_view what) {
  return invalid_input(fmt::format("tensor '{}.{}' {}", module, kBitmaskParts[static_cast<std::size_t>(part)], what));
}

// Every weight has them.
bool is_required(BitmaskPart part) {
  return part == BitmaskPart::kShape || part == BitmaskPart::kBitmask || part == BitmaskPart::kCompressed;
}

Status check_all_there(std::string_view module, const BitmaskTensors& tensors) {
  for (const BitmaskPart part : {BitmaskPart::kShape, BitmaskPart::kBitmask, BitmaskPart::kCompressed})
    if (tensors.find(part) == nullptr)
      return error_of(module, part, "is missing: a weight of compressed-tensors has shape, bitmask and compressed");
  if (tensors.find(BitmaskPart::kWeight) != nullptr)
    return error_of(module, BitmaskPart::kWeight, "comes twice: as it is, and as shape, bitmask and compressed");
  if (tensors.find(BitmaskPart::kRowOffsets) == nullptr && tensors.find(BitmaskPart::kCompressed)->shape.size() == 1)
    return error_of(module, BitmaskPart::kRowOffsets, "is missing: only a 2:4 weight has none, and compressed is flat");
  return {};
}

Status check_entry(const SafetensorsEntry& entry, std::string_view dtype, const std::vector<std::int64_t>& shape,
                   const BitmaskMatrix& matrix) {
  if (entry.dtype == dtype && entry.shape == shape) return {};
  return invalid_input(fmt::format("tensor '{}' is {} [{}]; of a {}weight of {} x {} it is {} [{}]", entry.name,
                                   entry.dtype, fmt::join(entry.shape, ", "), matrix.two_four ? "2:4 " : "",
                                   matrix.rows, matrix.cols, dtype, fmt::join(shape, ", ")));
}

// The first of the groups of four among the next `columns` columns that does not store two; nothing: all do.
std::optional<int> wrong_group(std::uint32_t bits, std::int64_t columns) {
  for (int first = 0; first < std::min<std::int64_t>(columns, 8); first += 4)
    if (std::popcount(bits >> first & 15) != 2) return first;
  return std::nullopt;
}

}  // namespace

std::optional<std::pair<std::string_view, BitmaskPart>> bitmask_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto found = std::ranges::find(kBitmaskParts, name.substr(dot + 1));
  if (found == kBitmaskParts.end()) return std::nullopt;
  return std::pair(name.substr(0, dot), static_cast<BitmaskPart>(found - kBitmaskParts.begin()));
}

std::map<std::string_view, BitmaskTensors> find_bitmask_tensors(std::span<const SafetensorsHeader> headers) {
  std::map<std::string_view, BitmaskTensors> found;
  const auto for_each_part = [&headers](const auto& body) {
    for (std::size_t file = 0; file < headers.size(); ++file)
      for (const SafetensorsEntry& entry : headers[file].tensors)
        if (const auto part = bitmask_part(entry.name)) body(*part, BitmaskTensors::Place{&entry, file});
  };
  for_each_part([&](const auto& part, const BitmaskTensors::Place& place) {
    if (is_required(part.second)) found[part.first].parts[static_cast<std::size_t>(part.second)] = place;
  });
  std::erase_if(found, [](const auto& each) {
    return std::ranges::count_if(each.second.parts, [](const auto& place) { return place.entry != nullptr; }) < 2;
  });
  for_each_part([&](const auto& part, const BitmaskTensors::Place& place) {
    const auto weight = found.find(part.first);
    if (weight != found.end()) weight->second.parts[static_cast<std::size_t>(part.second)] = place;
  });
  return found;
}

Result<BitmaskMatrix> bitmask_matrix(std::string_view module, const BitmaskTensors& tensors,
                                     std::span<const std::byte> file) {
  SPARSMITH_RETURN_IF_ERROR(check_all_there(module, tensors));
  const auto bytes_of = [file](const SafetensorsEntry& entry) {
    return file.subspan(entry.begin, entry.end - entry.begin);
  };
  const SafetensorsEntry& shape = *tensors.find(BitmaskPart::kShape);
  const SafetensorsEntry& bitmask = *tensors.find(BitmaskPart::kBitmask);
  const SafetensorsEntry& compressed = *tensors.find(BitmaskPart::kCompressed);
  const SafetensorsEntry* const row_offsets = tensors.find(BitmaskPart::kRowOffsets);
  const bool is_pair = shape.shape == std::vector<std::int64_t>{2} || shape.shape == std::vector<std::int64_t>{2, 1};
  if (shape.dtype != "I64" || !is_pair) {
    return error_of(
        module, BitmaskPart::kShape,
        fmt::format("is {} [{}]; the shape of a weight is I64 [2]", shape.dtype, fmt::join(shape.shape, ", ")));
  }
  BitmaskMatrix matrix;
  matrix.rows = integer_at(bytes_of(shape), 0);
  matrix.cols = integer_at(bytes_of(shape), 1);
  matrix.two_four = row_offsets == nullptr;
  if (matrix.rows < 0 || matrix.cols < 0 || (matrix.two_four && matrix.cols % 4 != 0)) {
    return error_of(module, BitmaskPart::kShape,
                    fmt::format("says {} x {}{}", matrix.rows, matrix.cols,
                                matrix.two_four ? "; a 2:4 weight has a multiple of 4 columns" : ""));
  }
  SPARSMITH_RETURN_IF_ERROR(
      check_entry(bitmask, "U8", {matrix.rows, matrix.cols / 8 + (matrix.cols % 8 != 0 ? 1 : 0)}, matrix));
  if (row_offsets != nullptr) {
    SPARSMITH_RETURN_IF_ERROR(check_entry(*row_offsets, "I64", {matrix.rows}, matrix));
    matrix.row_offsets = bytes_of(*row_offsets);
    if (compressed.shape.size() != 1)
      return error_of(module, BitmaskPart::kCompressed,
                      fmt::format("has {} dimensions; beside row_offsets it has 1", compressed.shape.size()));
    matrix.stored = compressed.shape[0];
  } else {
    SPARSMITH_RETURN_IF_ERROR(check_entry(compressed, compressed.dtype, {matrix.rows, matrix.cols / 2}, matrix));
    matrix.stored = matrix.rows * (matrix.cols / 2);
  }
  matrix.data_type = data_type_from_safetensors_name(compressed.dtype).value_or(DataType::kFloat32);
  matrix.bitmask = bytes_of(bitmask);
  matrix.compressed = bytes_of(compressed);
  return matrix;
}

Result<CsrMatrix> csr_from_bitmask(const BitmaskMatrix& matrix, std::int64_t max_bytes) {
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(matrix.rows, matrix.cols));
  SPARSMITH_RETURN_IF_ERROR(check_csr_memory(matrix.rows, matrix.stored, max_bytes));
  CsrMatrix csr{{matrix.rows, matrix.cols}, matrix.data_type};
  csr.row_offsets.reserve(matrix.rows + 1);
  csr.column_indices.reserve(matrix.stored);
  csr.values.reserve(matrix.stored);
  const DenseMatrix elements{matrix.compressed.data(), 1, matrix.stored, matrix.data_type};
  const std::byte* at = matrix.bitmask.data();
  std::int64_t next = 0;  // of `elements`
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto error = [row](std::string_view what) { return invalid_input(fmt::format("row {}: {}", row, what)); };
    if (!matrix.two_four && integer_at(matrix.row_offsets, row) != next)
      return error(fmt::format("row_offsets says {}, and bitmask has {} bits in the rows above",
                               integer_at(matrix.row_offsets, row), next));
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
        const auto place = static_cast<std::uint32_t>(column + std::countr_zero(bits));
        if (!std::isfinite(value))
          return invalid_input(
              fmt::format("the element in row {}, column {} is {}; a weight must be finite", row, place, value));
        if (value == 0.0F) continue;
        csr.column_indices.push_back(place);
        csr.values.push_back(value);
      }
    }
    csr.row_offsets.push_back(csr.nnz());
  }
  if (next != matrix.stored) {
    return invalid_input(
        fmt::format("bitmask has {} bits in all, and compressed has {} elements", next, matrix.stored));
  }
  return csr;
}

}  // namespace sparsmith
