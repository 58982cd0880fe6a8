#include "matrix/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/json_text.h"

namespace sparsmith {
namespace {

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

constexpr std::size_t kMaxTensors = 1 << 18;  // of a header, so that a small file takes little memory
constexpr std::size_t kMaxName = 1 << 16;
constexpr std::size_t kMaxDimensions = 64;

Status duplicate(std::string_view name) { return invalid_input(fmt::format("the header names '{}' twice", name)); }

Status check_byte_count(const SafetensorsEntry& entry) {
  std::uint64_t total = 1;
  const std::optional<std::uint64_t> bits = element_bits(entry.dtype);
  bool overflows = false;
  for (const std::int64_t extent : entry.shape)
    overflows |= __builtin_mul_overflow(total, static_cast<std::uint64_t>(extent), &total);
  if (overflows || __builtin_mul_overflow(total, bits.value_or(1), &total))
    return invalid_input("the product of \"shape\" overflows");
  if (bits && (total % 8 != 0 || total / 8 != entry.end - entry.begin)) {
    return invalid_input(fmt::format("\"data_offsets\" span {} bytes, but shape [{}] of {} takes {}",
                                     entry.end - entry.begin, fmt::join(entry.shape, ", "), entry.dtype,
                                     (total + 7) / 8));
  }
  return {};
}

// A tensor as the header describes it, which counts its bytes from `data_begin` of the file on.
Result<SafetensorsEntry> entry_of(const std::string& name, const nlohmann::json& description, std::uint64_t data_begin,
                                  std::uint64_t data_bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  JsonReader reader(description, fmt::format("tensor '{}'", name));
  SafetensorsEntry entry{name, reader.text("dtype"), reader.integers("shape", 0, kMost)};
  const std::vector<std::int64_t> offsets = reader.integers("data_offsets", 0, kMost);
  if (entry.shape.size() > kMaxDimensions)
    reader.fail("shape", fmt::format("has more than {} dimensions", kMaxDimensions));
  if (offsets.size() != 2) reader.fail("data_offsets", "must be a list of two numbers");
  SPARSMITH_RETURN_IF_ERROR(reader.status());
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.begin > entry.end || entry.end > data_bytes) {
    reader.fail("data_offsets", fmt::format("[{}, {}] leave the {} bytes of data (is the file cut off?)", entry.begin,
                                            entry.end, data_bytes));
  }
  reader.fail(check_byte_count(entry));
  SPARSMITH_RETURN_IF_ERROR(reader.status());
  entry.begin += data_begin;
  entry.end += data_begin;
  return entry;
}

Status read_metadata(const nlohmann::json& json, std::map<std::string, std::string>& metadata) {
  if (!json.is_object()) return invalid_input("'__metadata__' must be an object");
  for (const auto& [key, text] : json.items()) {
    if (!text.is_string()) return invalid_input(fmt::format("'__metadata__': the value of '{}' must be a string", key));
    metadata[key] = text.get<std::string>();
  }
  return {};
}

// Of two tensors with one name, either could be meant.
Status check_names(const std::vector<SafetensorsEntry>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const SafetensorsEntry& entry : tensors) names.push_back(entry.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() ? Status() : duplicate(*twice);
}

// The header's text. Its members are read one by one, so that no tree of the whole is built.
Result<SafetensorsHeader> read_header(std::string_view text, std::uint64_t data_begin, std::uint64_t data_bytes) {
  SafetensorsHeader header;
  bool has_metadata = false;
  const auto take = [&](const std::string& name, const nlohmann::json& value) -> Status {
    if (name.size() > kMaxName)
      return invalid_input(fmt::format("a name of {} bytes; at most {} are allowed", name.size(), kMaxName));
    if (name == "__metadata__")
      return std::exchange(has_metadata, true) ? duplicate(name) : read_metadata(value, header.metadata);
    if (header.tensors.size() == kMaxTensors)
      return invalid_input(fmt::format("the header names more than {} tensors", kMaxTensors));
    SPARSMITH_ASSIGN_OR_RETURN(header.tensors.emplace_back(), entry_of(name, value, data_begin, data_bytes));
    return {};
  };
  SPARSMITH_RETURN_IF_ERROR(parse_json_members(text, take).annotate("the header"));
  SPARSMITH_RETURN_IF_ERROR(check_names(header.tensors));
  return header;
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
  const std::uint64_t data_begin = kLengthBytes + length;
  SPARSMITH_ASSIGN_OR_RETURN(SafetensorsHeader header, read_header(text, data_begin, file.size() - data_begin));
  std::ranges::sort(header.tensors, {},
                    [](const SafetensorsEntry& entry) { return std::tie(entry.begin, entry.end, entry.name); });
  SPARSMITH_RETURN_IF_ERROR(check_layout(header.tensors, data_begin, file.size()));
  return header;
}

Result<std::string> safetensors_header_bytes(std::span<const SafetensorsPart> parts,
                                             const std::map<std::string, std::string>& metadata) {
  const auto dumped = [](const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string text = "{";
  const auto add = [&](const std::string& key, const nlohmann::ordered_json& value) {
    text += fmt::format("{}{}:{}", text.size() > 1 ? "," : "", dumped(key), dumped(value));
  };
  if (!metadata.empty()) add("__metadata__", metadata);
  std::uint64_t offset = 0;
  std::set<std::string_view> names;
  for (const SafetensorsPart& part : parts) {
    if (part.name == "__metadata__" || !names.insert(part.name).second) {
      return invalid_argument(fmt::format("two tensors of one file cannot both be named '{}'", part.name));
    }
    add(part.name,
        {{"dtype", part.dtype}, {"shape", part.shape}, {"data_offsets", {offset, offset + part.bytes.size()}}});
    offset += part.bytes.size();
  }
  text += "}";
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
