// Parses JSON of unknown origin to a tree. Takes linear time, bounded depth and bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// Errors: kInvalidInput with line and reason: no JSON, a duplicate key in an object, more than 64 levels, or a tree
// that takes more than about `memory_bytes`.
Result<nlohmann::json> parse_json(std::string_view text, std::size_t memory_bytes);
// The same with memory_bytes = 40 MB + twice the length of the text.
Result<nlohmann::json> parse_json(std::string_view text);

// Reads a text with one object, member by member. `take` gets the name and the value of each member; then the value is
// freed. Only one member at a time uses memory, at most the limit of parse_json(text). The outer object may have
// duplicate names.
//   Errors: as parse_json(); kInvalidInput when the text is no object; errors of `take`.
using TakeMember = std::function<Status(const std::string& name, const nlohmann::json& value)>;
Status parse_json_members(std::string_view text, TakeMember take);

// The value of an integer from `least` to `most`; no value for other JSON. 1.0 and 1e3 are no integers.
std::optional<std::int64_t> json_integer(const nlohmann::json& json,
                                         std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                         std::int64_t most = std::numeric_limits<std::int64_t>::max());
// The value of an integer from 0 to 2^64 - 1 (for seeds); no value for other JSON.
std::optional<std::uint64_t> json_unsigned(const nlohmann::json& json);

// The version of the JSON that commands print, in the member "schema_version". A new member leaves it as it is; another
// meaning, or a member that goes, raises it.
inline constexpr int kJsonVersion = 1;
// Ok for an object of this version, or of none. Error: kInvalidInput for another one.
Status check_json_version(const nlohmann::json& json);

// The message of the error, without the JSON library's prefix.
std::string json_error(const nlohmann::json::exception& error);

}  // namespace sparsmith
