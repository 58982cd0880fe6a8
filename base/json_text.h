// JSON of unknown origin, as a tree. Parsing takes linear time, bounded depth and bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// Errors: kInvalidInput with line and reason: no JSON, a key that an object has twice, more than 64 levels, or a tree
// that takes more than `memory_bytes`, by an estimate.
Result<nlohmann::json> parse_json(std::string_view text, std::size_t memory_bytes);
// With 40 MB and twice the length of the text.
Result<nlohmann::json> parse_json(std::string_view text);

// The value of an integer from `least` to `most`; nothing for any other JSON. 1.0 and 1e3 are no integers.
std::optional<std::int64_t> json_integer(const nlohmann::json& json,
                                         std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                         std::int64_t most = std::numeric_limits<std::int64_t>::max());
// The value of an integer from 0 to 2^64 - 1, as seeds are; nothing for any other JSON.
std::optional<std::uint64_t> json_unsigned(const nlohmann::json& json);

// What the error says, without the name that the JSON library gives it.
std::string json_error(const nlohmann::json::exception& error);

}  // namespace sparsmith
