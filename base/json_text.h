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

// The integer, where `json` is one from `least` to `most`. 1.0 is none: numbers with a point or an exponent have no
// bounds that a conversion would keep.
std::optional<std::int64_t> json_integer(const nlohmann::json& json,
                                         std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                         std::int64_t most = std::numeric_limits<std::int64_t>::max());
// The same of 64 bits without a sign, as seeds are.
std::optional<std::uint64_t> json_unsigned(const nlohmann::json& json);

// What the error says, without the name that the JSON library gives it.
std::string json_error(const nlohmann::json::exception& error);

}  // namespace sparsmith
