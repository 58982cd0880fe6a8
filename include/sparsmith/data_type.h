// Element types of weights, activations and packed arrays, with the names safetensors gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sparsmith/export.h"

namespace sparsmith {

enum class DataType : std::uint8_t { kFloat32, kFloat16, kBFloat16, kUint8, kUint16, kUint32, kInt32, kInt8 };

// Bytes of one element.
SPARSMITH_API std::size_t size_of(DataType type);

// "fp32", "fp16", "bf16", "u8", ...: the name in options, kernel names and tables.
SPARSMITH_API std::string_view short_name(DataType type);
SPARSMITH_API std::optional<DataType> data_type_from_short_name(std::string_view name);

// "F32", "F16", "BF16", "U8", ...: the name in a safetensors header.
SPARSMITH_API std::string_view safetensors_name(DataType type);
SPARSMITH_API std::optional<DataType> data_type_from_safetensors_name(std::string_view name);

}  // namespace sparsmith
