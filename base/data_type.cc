#include "sparsmith/data_type.h"

#include <algorithm>
#include <array>

namespace sparsmith {
namespace {

struct Row {
  DataType type;
  std::size_t bytes;
  std::string_view short_name;
  std::string_view safetensors_name;
};

constexpr std::array kTable = {
    Row{DataType::kFloat32, 4, "fp32", "F32"},   Row{DataType::kFloat16, 2, "fp16", "F16"},
    Row{DataType::kBFloat16, 2, "bf16", "BF16"}, Row{DataType::kUint8, 1, "u8", "U8"},
    Row{DataType::kUint16, 2, "u16", "U16"},     Row{DataType::kUint32, 4, "u32", "U32"},
    Row{DataType::kInt32, 4, "i32", "I32"},      Row{DataType::kInt8, 1, "i8", "I8"},
};

const Row& row_of(DataType type) { return kTable.at(static_cast<std::size_t>(type)); }

std::optional<DataType> type_of(std::string_view name, std::string_view Row::* column) {
  const auto* const found = std::ranges::find(kTable, name, column);
  return found == kTable.end() ? std::nullopt : std::optional(found->type);
}

}  // namespace

std::size_t size_of(DataType type) { return row_of(type).bytes; }
std::string_view short_name(DataType type) { return row_of(type).short_name; }
std::string_view safetensors_name(DataType type) { return row_of(type).safetensors_name; }

std::optional<DataType> data_type_from_short_name(std::string_view name) { return type_of(name, &Row::short_name); }
std::optional<DataType> data_type_from_safetensors_name(std::string_view name) {
  return type_of(name, &Row::safetensors_name);
}

}  // namespace sparsmith
