#include "matrix/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

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

constexpr int kMaxDepth = 16;                 // of the JSON; a tensor's description takes 3
constexpr std::size_t kMaxTensors = 1 << 18;  // what a header may hold, so that a small file takes little memory
constexpr std::size_t kMaxMetadata = 1 << 16;
constexpr std::size_t kMaxDimensions = 64;
constexpr std::size_t kMaxName = 1 << 16;
constexpr std::size_t kMaxOtherKeys = 64;  // of one tensor, that this reader does not know

Status duplicate(std::string_view name) { return invalid_input(fmt::format("the header names '{}' twice", name)); }

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

// Takes the header from the parser piece by piece: no tree of the JSON is built, and the time is linear in its length.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  // `data_bytes` follow the header in the file, from `data_begin` on.
  HeaderReader(std::uint64_t data_begin, std::uint64_t data_bytes) : data_begin_(data_begin), data_bytes_(data_bytes) {}

  Result<SafetensorsHeader> read(std::string_view text) {
    if (!Json::sax_parse(text.begin(), text.end(), this))
      return status_.ok() ? invalid_input("the header is no valid JSON") : status_;
    SPARSMITH_RETURN_IF_ERROR(check_names());
    return std::move(header_);
  }

  bool null() override { return value({}); }
  bool boolean(bool /*value*/) override { return value({}); }
  bool number_integer(std::int64_t /*value*/) override { return value({}); }
  bool number_unsigned(std::uint64_t number) override { return value({.number = number}); }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return value({}); }
  bool string(std::string& text) override { return value({.text = &text}); }
  bool binary(Json::binary_t& /*value*/) override { return value({}); }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/, const Json::exception& /*error*/) override {
    return false;
  }

  bool key(std::string& key) override {
    if (key.size() > kMaxName)
      return fail(invalid_input(fmt::format("a name of {} bytes; at most {} are allowed", key.size(), kMaxName)));
    if (depth_ == 1) {
      in_metadata_ = key == "__metadata__";
      if (in_metadata_ && std::exchange(has_metadata_, true)) return fail(duplicate(key));
      entry_ = {};
      entry_.name = std::move(key);
      return true;
    }
    if (depth_ == 2 && in_metadata_) {
      if (header_.metadata.size() == kMaxMetadata)
        return fail(invalid_input(fmt::format("'__metadata__' holds more than {} texts", kMaxMetadata)));
      const auto [at, is_new] = header_.metadata.emplace(std::move(key), "");
      metadata_ = at;
      return is_new || fail(duplicate(at->first));
    }
    if (depth_ == 2) return key_of_tensor(key);
    return true;  // of what is not read
  }

  bool start_object(std::size_t /*size*/) override {
    if (depth_ == 1 && !in_metadata_) begin_tensor();
    return (depth_ < 2 || value({})) && enter();
  }
  bool end_object() override {
    --depth_;
    return depth_ != 1 || in_metadata_ || end_tensor();
  }
  bool start_array(std::size_t /*size*/) override {
    const bool taken = depth_ == 2 && !in_metadata_ && (field_ == Field::kShape || field_ == Field::kOffsets);
    return (taken || value({})) && enter();
  }
  bool end_array() override {
    --depth_;
    if (depth_ == 2 && field_ == Field::kOffsets && offsets_ != 2)
      return fail_tensor(invalid_input("'data_offsets' must be a list of two numbers"));
    return true;
  }

 private:
  enum class Field : std::uint8_t { kOther, kDtype, kShape, kOffsets };
  // A value that is neither a text nor a natural number has neither.
  struct Value {
    std::optional<std::uint64_t> number = std::nullopt;
    std::string* text = nullptr;
  };

  bool fail(Status status) {
    status_ = std::move(status);
    return false;
  }
  bool fail_tensor(const Status& status) { return fail(status.annotate(fmt::format("tensor '{}'", entry_.name))); }

  bool enter() {
    if (++depth_ <= kMaxDepth) return true;
    return fail(invalid_input(fmt::format("the header is nested more than {} levels deep", kMaxDepth)));
  }

  void begin_tensor() {
    seen_ = {};
    others_.clear();
    field_ = Field::kOther;
    offsets_ = 0;
    elements_ = 1;
  }

  bool key_of_tensor(const std::string& key) {
    static constexpr std::string_view kKeys[] = {"dtype", "shape", "data_offsets"};
    const auto known = std::ranges::find(kKeys, key);
    if (known == std::end(kKeys)) {
      field_ = Field::kOther;
      if (others_.size() == kMaxOtherKeys)
        return fail_tensor(invalid_input(fmt::format("it has more than {} unknown keys", kMaxOtherKeys)));
      return others_.insert(key).second || fail(duplicate(key));
    }
    const auto index = static_cast<std::size_t>(known - std::begin(kKeys));
    field_ = static_cast<Field>(index + 1);
    return !std::exchange(seen_[index], true) || fail(duplicate(key));
  }

  bool value(const Value& value) {
    if (depth_ == 0) return fail(invalid_input("the header is no JSON object"));
    if (depth_ == 1 && in_metadata_) return fail(invalid_input("'__metadata__' must be an object"));
    if (depth_ == 1) return fail_tensor(invalid_input("its description must be an object"));
    if (in_metadata_) {
      if (value.text == nullptr)
        return fail(invalid_input(fmt::format("'__metadata__': the value of '{}' must be a string", metadata_->first)));
      metadata_->second = std::move(*value.text);
      return true;
    }
    if (field_ == Field::kOther) return true;
    if (depth_ == 2) {
      if (field_ == Field::kShape) return fail_tensor(invalid_input("'shape' must be a list"));
      if (field_ == Field::kOffsets) return fail_tensor(invalid_input("'data_offsets' must be a list of two numbers"));
      if (value.text == nullptr) return fail_tensor(invalid_input("'dtype' must be a string"));
      entry_.dtype = std::move(*value.text);
      return true;
    }
    return number(value);
  }

  // An element of 'shape' or of 'data_offsets'.
  bool number(const Value& value) {
    const char* what = field_ == Field::kShape ? "an extent of 'shape'" : "'data_offsets'";
    if (!value.number) return fail_tensor(invalid_input(fmt::format("{} must be a natural number", what)));
    const std::uint64_t number = *value.number;
    if (number > (std::uint64_t{1} << 62))
      return fail_tensor(invalid_input(fmt::format("{} is {}, which no file can hold", what, number)));
    if (field_ == Field::kOffsets) {
      (offsets_ == 0 ? entry_.begin : entry_.end) = number;
      return ++offsets_ <= 2 || fail_tensor(invalid_input("'data_offsets' must be a list of two numbers"));
    }
    if (__builtin_mul_overflow(elements_, number, &elements_))
      return fail_tensor(invalid_input("the product of 'shape' overflows"));
    if (entry_.shape.size() == kMaxDimensions)
      return fail_tensor(invalid_input(fmt::format("'shape' has more than {} dimensions", kMaxDimensions)));
    entry_.shape.push_back(static_cast<std::int64_t>(number));
    return true;
  }

  bool end_tensor() {
    static constexpr const char* kKeys[] = {"dtype", "shape", "data_offsets"};
    for (std::size_t i = 0; i < std::size(kKeys); ++i) {
      if (!seen_[i]) return fail_tensor(invalid_input(fmt::format("'{}' is missing", kKeys[i])));
    }
    if (entry_.begin > entry_.end || entry_.end > data_bytes_) {
      return fail_tensor(
          invalid_input(fmt::format("'data_offsets' [{}, {}] leave the {} bytes of data (is the file cut off?)",
                                    entry_.begin, entry_.end, data_bytes_)));
    }
    const Status count = check_byte_count(entry_, elements_);
    if (!count.ok()) return fail_tensor(count);
    if (header_.tensors.size() == kMaxTensors)
      return fail(invalid_input(fmt::format("the header names more than {} tensors", kMaxTensors)));
    entry_.begin += data_begin_;
    entry_.end += data_begin_;
    entry_.shape.shrink_to_fit();
    header_.tensors.push_back(std::move(entry_));
    return true;
  }

  // Of two tensors with one name, either could be meant.
  Status check_names() const {
    std::vector<const std::string*> names;
    names.reserve(header_.tensors.size());
    for (const SafetensorsEntry& entry : header_.tensors) names.push_back(&entry.name);
    const auto less = [](const std::string* a, const std::string* b) { return *a < *b; };
    const auto equal = [](const std::string* a, const std::string* b) { return *a == *b; };
    std::sort(names.begin(), names.end(), less);
    const auto twice = std::adjacent_find(names.begin(), names.end(), equal);
    return twice == names.end() ? Status() : duplicate(**twice);
  }

  std::uint64_t data_begin_;
  std::uint64_t data_bytes_;
  SafetensorsHeader header_;
  Status status_;
  int depth_ = 0;  // of the object or list that is open
  bool in_metadata_ = false;
  bool has_metadata_ = false;
  std::map<std::string, std::string>::iterator metadata_;  // the text that comes next
  // The tensor that is open.
  SafetensorsEntry entry_;
  Field field_ = Field::kOther;
  std::array<bool, 3> seen_{};
  std::set<std::string> others_;
  int offsets_ = 0;
  std::uint64_t elements_ = 1;
};

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
  SPARSMITH_ASSIGN_OR_RETURN(SafetensorsHeader header, HeaderReader(data_begin, file.size() - data_begin).read(text));
  std::sort(header.tensors.begin(), header.tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
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
