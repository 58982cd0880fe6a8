#include "tools/report/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/json_text.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

const json kNoArray = json::array();
const json kNoObject = json::object();

}  // namespace

JsonFields::JsonFields(const json& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!json_.is_object()) fail(invalid_input(where_ + " is no object"));
}

const json* JsonFields::find(const char* key) const {
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::fail(const Status& status) {
  if (status_.ok()) status_ = status;
}

void JsonFields::wrong(const char* key, const std::string& what) { fail(invalid_input(place(key) + " " + what)); }

std::string JsonFields::place(const char* key, std::size_t index) const {
  return fmt::format("{}.{}[{}]", where_, key, index);
}

std::string JsonFields::text(const char* key) {
  if (find(key) == nullptr) wrong(key, "is missing: a text is expected");
  return text_or(key, {});
}

std::string JsonFields::text_or(const char* key, const std::string& otherwise) {
  const json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  wrong(key, "is no text");
  return otherwise;
}

double JsonFields::number(const char* key, double least, double most) {
  if (find(key) == nullptr) wrong(key, "is missing: a number is expected");
  return number_or(key, least, most, least);
}

double JsonFields::number_or(const char* key, double least, double most, double otherwise) {
  const json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) {
    wrong(key, "is no number");
    return otherwise;
  }
  const auto number = value->get<double>();
  if (std::isfinite(number) && number >= least && number <= most) return number;
  wrong(key, fmt::format("is {:g}, outside of [{:g}, {:g}]", number, least, most));
  return otherwise;
}

std::int64_t JsonFields::integer(const char* key, std::int64_t least, std::int64_t most) {
  const json* const value = find(key);
  if (value == nullptr || !value->is_number_integer()) {
    wrong(key, value == nullptr ? "is missing: a whole number is expected" : "is no whole number");
    return least;
  }
  if (const auto number = json_integer(*value, least, most)) return *number;
  wrong(key, fmt::format("is outside of [{}, {}]", least, most));
  return least;
}

const json& JsonFields::array(const char* key) {
  if (find(key) == nullptr) wrong(key, "is missing: an array is expected");
  return array_or_none(key);
}

const json& JsonFields::array_or_none(const char* key) {
  const json* const value = find(key);
  if (value == nullptr) return kNoArray;
  if (value->is_array()) return *value;
  wrong(key, "is no array");
  return kNoArray;
}

const json& JsonFields::object_or_none(const char* key) {
  const json* const value = find(key);
  if (value == nullptr) return kNoObject;
  if (value->is_object()) return *value;
  wrong(key, "is no object");
  return kNoObject;
}

}  // namespace sparsmith::tools
