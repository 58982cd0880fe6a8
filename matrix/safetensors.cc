#include "matrix/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/file.h"

namespace sparsmith {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian, and so is this reader");

// Bits of an element; none for a type that is not known here.
std::optional<std::uint64_t> element_bits(std::string_view dtype) {
  struct Row {
    std::string_view dtype;
    std::uint64_t bits;
  };
  static constexpr Row kRows[] = {{"F32", 32}, {"F16", 16}, {"BF16", 16},   {"F64", 64},    {"BOOL", 8},
                                  {"U8", 8},   {"I8", 8},   {"U16", 16},    {"I16", 16},    {"U32", 32},
                                  {"I32", 32}, {"U64", 64}, {"I64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
                                  {"F4", 4},   {"C64", 64}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E8M0", 8}};
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row.bits;
  return std::nullopt;
}

// The JSON text without exceptions, refusing a key that comes twice in one object of the outermost two levels:
// of two tensors with one name, either could be meant.
Result<Json> parse_json(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto note_keys = [&](int depth, Json::parse_event_t event, Json& value) {
    const auto level = static_cast<std::size_t>(depth);
    if (level > 2) return true;
    if (event == Json::parse_event_t::object_start) keys.resize(level + 1);
    if (event == Json::parse_event_t::key) {
      keys.resize(std::max(keys.size(), level + 1));
      if (!keys[level].insert(value.get<std::string>()).second) twice = value.get<std::string>();
    }
    if (event == Json::parse_event_t::object_end && keys.size() > level + 1) keys.resize(level + 1);
    return true;
  };
  Json json = Json::parse(text, note_keys, /*allow_exceptions=*/false);
  if (json.is_discarded()) return invalid_input("the header is no valid JSON");
  if (!json.is_object()) return invalid_input("the header is no JSON object");
  if (!twice.empty()) return invalid_input(fmt::format("the header names '{}' twice", twice));
  return json;
}

Result<std::uint64_t> natural_number(const Json& json, std::string_view what) {
  if (!json.is_number_unsigned()) return invalid_input(fmt::format("{} must be a natural number", what));
  const auto value = json.get<std::uint64_t>();
  if (value > (std::uint64_t{1} << 62))
    return invalid_input(fmt::format("{} is {}, which no file can hold", what, value));
  return value;
}

Status parse_shape(const Json& json, SafetensorsEntry& entry, std::uint64_t& elements) {
  if (!json.is_array()) return invalid_input("'shape' must be a list");
  elements = 1;
  for (const Json& item : json) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::uint64_t extent, natural_number(item, "an extent of 'shape'"));
    if (__builtin_mul_overflow(elements, extent, &elements)) return invalid_input("the product of 'shape' overflows");
    entry.shape.push_back(static_cast<std::int64_t>(extent));
  }
  return {};
}

Status check_byte_count(const SafetensorsEntry& entry, std::uint64_t elements) {
  const std::optional<std::uint64_t> bits = element_bits(entry.dtype);
  if (!bits) return {};
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(elements, *bits, &total)) return invalid_input("its size in bytes overflows");
  if (total % 8 != 0 || total / 8 != entry.end - entry.begin) {
    return invalid_input(fmt::format("'data_offsets' span {} bytes, but shape [{}] of {} takes {}",
                                     entry.end - entry.begin, fmt::join(entry.shape, ", "), entry.dtype,
                                     (total + 7) / 8));
  }
  return {};
}

// `data_begin` and `data_bytes` describe what follows the header in the file.
Result<SafetensorsEntry> parse_entry(const std::string& name, const Json& json, std::uint64_t data_begin,
                                     std::uint64_t data_bytes) {
  SafetensorsEntry entry;
  entry.name = name;
  if (!json.is_object()) return invalid_input("its description must be an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!json.contains(key)) return invalid_input(fmt::format("'{}' is missing", key));
  }
  if (!json["dtype"].is_string()) return invalid_input("'dtype' must be a string");
  entry.dtype = json["dtype"].get<std::string>();
  std::uint64_t elements = 0;
  SPARSMITH_RETURN_IF_ERROR(parse_shape(json["shape"], entry, elements));
  const Json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) return invalid_input("'data_offsets' must be a list of two numbers");
  SPARSMITH_ASSIGN_OR_RETURN(entry.begin, natural_number(offsets[0], "'data_offsets'"));
  SPARSMITH_ASSIGN_OR_RETURN(entry.end, natural_number(offsets[1], "'data_offsets'"));
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return invalid_input(fmt::format("'data_offsets' [{}, {}] leave the {} bytes of data (is the file cut off?)",
                                     entry.begin, entry.end, data_bytes));
  }
  SPARSMITH_RETURN_IF_ERROR(check_byte_count(entry, elements));
  entry.begin += data_begin;
  entry.end += data_begin;
  return entry;
}

Status parse_metadata(const Json& json, std::map<std::string, std::string>& metadata) {
  if (!json.is_object()) return invalid_input("'__metadata__' must be an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string())
      return invalid_input(fmt::format("'__metadata__': the value of '{}' must be a string", key));
    metadata[key] = value.get<std::string>();
  }
  return {};
}

// The tensors must follow each other without gap, from the end of the header to the end of the file.
Status check_layout(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_begin, std::uint64_t file_size) {
  std::uint64_t expected = data_begin;
  for (const SafetensorsEntry& entry : tensors) {
    if (entry.begin < expected)
      return invalid_input(fmt::format("tensor '{}': its bytes overlap another tensor's", entry.name));
    if (entry.begin > expected) {
      return invalid_input(
          fmt::format("tensor '{}': {} bytes before it belong to no tensor", entry.name, entry.begin - expected));
    }
    expected = entry.end;
  }
  if (expected != file_size)
    return invalid_input(fmt::format("the last {} bytes belong to no tensor", file_size - expected));
  return {};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes)
    return invalid_input(fmt::format("{} bytes are too few for a safetensors file", file.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > file.size() - kLengthBytes) {
    return invalid_input(
        fmt::format("the header claims {} bytes in a file of {} (not safetensors, or cut off)", length, file.size()));
  }
  if (length > kMaxHeaderBytes)
    return invalid_input(fmt::format("the header claims {} bytes; at most {} are allowed", length, kMaxHeaderBytes));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  SPARSMITH_ASSIGN_OR_RETURN(const Json json, parse_json(text));

  SafetensorsHeader header;
  const std::uint64_t data_begin = kLengthBytes + length;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      SPARSMITH_RETURN_IF_ERROR(parse_metadata(value, header.metadata));
      continue;
    }
    Result<SafetensorsEntry> entry = parse_entry(name, value, data_begin, file.size() - data_begin);
    if (!entry.ok()) return entry.status().annotate(fmt::format("tensor '{}'", name));
    header.tensors.push_back(std::move(*entry));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  SPARSMITH_RETURN_IF_ERROR(check_layout(header.tensors, data_begin, file.size()));
  return header;
}

Result<std::string> safetensors_header_bytes(std::span<const SafetensorsPart> parts,
                                             const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  std::set<std::string_view> names;
  for (const SafetensorsPart& part : parts) {
    if (part.name == "__metadata__" || !names.insert(part.name).second) {
      return invalid_argument(fmt::format("two tensors of one file cannot both be named '{}'", part.name));
    }
    json[part.name] = {
        {"dtype", part.dtype}, {"shape", part.shape}, {"data_offsets", {offset, offset + part.bytes.size()}}};
    offset += part.bytes.size();
  }
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the first tensor is aligned
  const std::uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

Status write_safetensors(const std::string& path, std::span<const SafetensorsPart> parts,
                         const std::map<std::string, std::string>& metadata) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::string header, safetensors_header_bytes(parts, metadata));
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(header))};
  for (const SafetensorsPart& part : parts) pieces.push_back(part.bytes);
  return write_file_atomically(path, pieces);
}

}  // namespace sparsmith
