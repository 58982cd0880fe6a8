#include "matrix/bitmask_matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

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
                                     std::span<const std::span<const std::byte>> files) {
  SPARSMITH_RETURN_IF_ERROR(check_all_there(module, tensors));
  const auto bytes_of = [&](BitmaskPart part) {
    const BitmaskTensors::Place& place = tensors.place(part);
    return files[place.file].subspan(place.entry->begin, place.entry->end - place.entry->begin);
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
  matrix.rows = integer_at(bytes_of(BitmaskPart::kShape), 0);
  matrix.cols = integer_at(bytes_of(BitmaskPart::kShape), 1);
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
    matrix.row_offsets = bytes_of(BitmaskPart::kRowOffsets);
    if (compressed.shape.size() != 1)
      return error_of(module, BitmaskPart::kCompressed,
                      fmt::format("has {} dimensions; beside row_offsets it has 1", compressed.shape.size()));
    matrix.stored = compressed.shape[0];
  } else {
    SPARSMITH_RETURN_IF_ERROR(check_entry(compressed, compressed.dtype, {matrix.rows, matrix.cols / 2}, matrix));
    matrix.stored = matrix.rows * (matrix.cols / 2);
  }
  matrix.data_type = data_type_from_safetensors_name(compressed.dtype).value_or(DataType::kFloat32);
  matrix.bitmask = bytes_of(BitmaskPart::kBitmask);
  matrix.compressed = bytes_of(BitmaskPart::kCompressed);
  return matrix;
}

}  // namespace sparsmith
