#include "base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/json_text.h"

namespace sparsmith {
namespace {

const JsonReader::Json kNoArray = JsonReader::Json::array();
const JsonReader::Json kNoObject = JsonReader::Json::object();

std::optional<double> finite_number(const JsonReader::Json& json, double least, double most) {
  const double number = json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
  return std::isfinite(number) && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::optional<std::string> text_of(const JsonReader::Json& json) {
  return json.is_string() ? std::optional(json.get<std::string>()) : std::nullopt;
}

}  // namespace

JsonReader::JsonReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!json.is_object()) fail(invalid_input("is not an object"));
}

JsonReader::JsonReader(const Json& json, std::string where, std::initializer_list<std::string_view> keys,
                       std::initializer_list<std::string_view> more)
    : JsonReader(json, std::move(where)) {
  if (!json.is_object()) return;
  for (const auto& item : json.items()) {
    const auto is_key = [&](std::string_view key) { return key == item.key(); };
    if (std::ranges::none_of(keys, is_key) && std::ranges::none_of(more, is_key)) {
      fail(invalid_input(fmt::format("unknown key \"{}\"", item.key())));
    }
  }
}

void JsonReader::adopt(const Status& inside) {
  if (status_.ok()) status_ = inside;
}

void JsonReader::fail(const Status& status) { adopt(status.annotate(where_)); }

void JsonReader::fail(std::string_view key, std::string_view reason) {
  fail(invalid_input(fmt::format("\"{}\" {}", key, reason)));
}

std::string JsonReader::place(const char* key, std::size_t index) const {
  return fmt::format("{}.{}[{}]", where_, key, index);
}

const JsonReader::Json* JsonReader::find(const char* key) {
  if (!status_.ok()) return nullptr;
  const auto found = json_.find(key);
  if (found != json_.end()) return &*found;
  fail(key, "is missing");
  return nullptr;
}

bool JsonReader::is_missing(const char* key) const { return !has(key) || json_[key].is_null(); }

template <class Take, class Reason>
auto JsonReader::value(const char* key, const Take& take, const Reason& reason) {
  const Json* const json = find(key);
  auto taken = json == nullptr ? decltype(take(json_))() : take(*json);
  if (json != nullptr && !taken) fail(key, reason());
  return taken ? *std::move(taken) : typename decltype(taken)::value_type();
}

std::string JsonReader::text(const char* key) {
  return value(key, text_of, [] { return "is not a string"; });
}

std::string JsonReader::text_or(const char* key, const std::string& otherwise) {
  return is_missing(key) ? otherwise : text(key);
}

std::int64_t JsonReader::integer(const char* key, std::int64_t least, std::int64_t most) {
  const auto take = [&](const Json& json) { return json_integer(json, least, most); };
  return value(key, take, [&] { return fmt::format("is not an integer from {} to {}", least, most); });
}

std::uint64_t JsonReader::unsigned_integer(const char* key) {
  return value(key, json_unsigned, [] { return "is no integer of 64 bits"; });
}

double JsonReader::number(const char* key, double least, double most) {
  const auto take = [&](const Json& json) { return finite_number(json, least, most); };
  return value(key, take, [&] {
    const Json& json = json_[key];
    return json.is_number() ? fmt::format("is {:g}, outside of [{:g}, {:g}]", json.get<double>(), least, most)
                            : "is not a number";
  });
}

double JsonReader::number_or(const char* key, double least, double most, double otherwise) {
  return is_missing(key) ? otherwise : number(key, least, most);
}

bool JsonReader::boolean(const char* key) {
  const auto take = [](const Json& json) { return json.is_boolean() ? std::optional(json.get<bool>()) : std::nullopt; };
  return value(key, take, [] { return "is neither true nor false"; });
}

// NOLINTBEGIN(bugprone-return-const-ref-from-parameter): `empty` is one of the constants above.
const JsonReader::Json& JsonReader::container(const char* key, const Json& empty) {
  const Json* const json = find(key);
  if (json == nullptr) return empty;
  if (json->type() == empty.type()) return *json;
  fail(key, empty.is_array() ? "is not an array" : "is not an object");
  return empty;
}
// NOLINTEND(bugprone-return-const-ref-from-parameter)

const JsonReader::Json& JsonReader::array(const char* key) { return container(key, kNoArray); }
const JsonReader::Json& JsonReader::array_or_none(const char* key) { return is_missing(key) ? kNoArray : array(key); }
const JsonReader::Json& JsonReader::object(const char* key) { return container(key, kNoObject); }
const JsonReader::Json& JsonReader::object_or_none(const char* key) {
  return is_missing(key) ? kNoObject : object(key);
}

template <class T, class Read>
std::vector<T> JsonReader::elements(const char* key, std::string_view kind, const Read& read) {
  std::vector<T> values;
  for (const Json& each : array(key)) {
    const std::optional<T> value = read(each);
    if (value) values.push_back(*value);
    if (!value) fail(key, fmt::format("holds what is not {}", kind));
  }
  return values;
}

std::vector<std::string> JsonReader::texts(const char* key) { return elements<std::string>(key, "a string", text_of); }

std::vector<std::int64_t> JsonReader::integers(const char* key, std::int64_t least, std::int64_t most) {
  return elements<std::int64_t>(key, fmt::format("an integer from {} to {}", least, most),
                                [&](const Json& each) { return json_integer(each, least, most); });
}

std::vector<double> JsonReader::numbers(const char* key, double least, double most) {
  return elements<double>(key, fmt::format("a number from {:g} to {:g}", least, most),
                          [&](const Json& each) { return finite_number(each, least, most); });
}

}  // namespace sparsmith
