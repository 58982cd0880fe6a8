// JSON of unknown origin, as a tree. Parsing takes linear time, bounded depth and bounded memory.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// Errors: kInvalidInput with line and reason: no JSON, a key that an object has twice, more than 64 levels, or a tree
// that takes more than `memory_bytes`, by an estimate.
Result<nlohmann::json> parse_json(std::string_view text, std::size_t memory_bytes);
// With 40 MB and twice the length of the text.
Result<nlohmann::json> parse_json(std::string_view text);

// What the error says, without the name that the JSON library gives it.
std::string json_error(const nlohmann::json::exception& error);

}  // namespace sparsmith
