#include "runtime/json_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_text.h"

namespace sparsmith {

JsonReader::JsonReader(const Json& json, std::string where, std::initializer_list<std::string_view> keys,
                       std::initializer_list<std::string_view> more)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) {
    fail(invalid_input("is not an object"));
    return;
  }
  for (const auto& item : json.items()) {
    const auto is_key = [&](std::string_view key) { return key == item.key(); };
    if (std::ranges::none_of(keys, is_key) && std::ranges::none_of(more, is_key)) {
      fail(invalid_input(fmt::format("unknown key \"{}\"", item.key())));
    }
  }
}

void JsonReader::fail(const Status& status) {
  if (status_.ok()) status_ = status.annotate(where_);
}

void JsonReader::fail(std::string_view key, std::string_view reason) {
  fail(invalid_input(fmt::format("\"{}\" {}", key, reason)));
}

const JsonReader::Json* JsonReader::find(const char* key) {
  if (!status_.ok()) return nullptr;
  const auto found = json_.find(key);
  if (found != json_.end()) return &*found;
  fail(key, "is missing");
  return nullptr;
}

std::string JsonReader::text(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  fail(key, "is not a string");
  return {};
}

std::int64_t JsonReader::integer(const char* key, std::int64_t minimum, std::int64_t maximum) {
  const Json* value = find(key);
  if (value == nullptr) return 0;
  if (const auto integer = json_integer(*value, minimum, maximum)) return *integer;
  fail(key, fmt::format("is not an integer from {} to {}", minimum, maximum));
  return 0;
}

double JsonReader::number(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return 0;
  if (value->is_number()) return value->get<double>();
  fail(key, "is not a number");
  return 0;
}

const JsonReader::Json& JsonReader::array(const char* key) {
  static const Json kEmpty = Json::array();
  const Json* value = find(key);
  if (value == nullptr) return kEmpty;
  if (value->is_array()) return *value;
  fail(key, "is not an array");
  return kEmpty;
}

const JsonReader::Json& JsonReader::object(const char* key) {
  static const Json kEmpty = Json::object();
  const Json* value = find(key);
  if (value == nullptr) return kEmpty;
  if (value->is_object()) return *value;
  fail(key, "is not an object");
  return kEmpty;
}

}  // namespace sparsmith
