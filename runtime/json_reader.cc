#include "runtime/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace sparsmith {
namespace {

// Estimates of a tree's memory: elements and members with the room that a growing vector holds, containers with their
// allocation. A text beyond 15 characters is an allocation of its own.
constexpr std::size_t kElementBytes = 3 * sizeof(nlohmann::ordered_json);
constexpr std::size_t kMemberBytes = 3 * (sizeof(std::string) + sizeof(nlohmann::ordered_json));
constexpr std::size_t kContainerBytes = 64;
constexpr std::size_t kTextBytes = 48;

// Looks at a text before a tree is made of it. Its functions have the library's names, and false ends the parsing.
class JsonLimits : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  explicit JsonLimits(std::size_t memory_bytes) : room_(memory_bytes) {}

  const std::string& reason() const { return reason_; }

  bool null() override { return take(kElementBytes); }
  bool boolean(bool) override { return take(kElementBytes); }
  bool number_integer(number_integer_t) override { return take(kElementBytes); }
  bool number_unsigned(number_unsigned_t) override { return take(kElementBytes); }
  bool number_float(number_float_t, const string_t&) override { return take(kElementBytes); }
  bool string(string_t& text) override { return take(kElementBytes + kTextBytes + text.size()); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool end_object() override { return close(); }
  bool key(string_t& text) override {
    std::set<std::string>& keys = open_.back();
    if (!keys.insert(text).second) return fail(fmt::format("the key \"{:.100}\" stands twice in an object", text));
    if (keys.size() > kMaxJsonKeys) return fail(fmt::format("an object has over {} keys", kMaxJsonKeys));
    return take(kMemberBytes + text.size());
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("it is not valid JSON at byte {}", position));
  }

 private:
  bool fail(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  bool take(std::size_t bytes) {
    if (bytes > room_) return fail("it holds more values than a file of its size may");
    room_ -= bytes;
    return true;
  }
  bool open() {
    if (open_.size() == kMaxJsonDepth) return fail(fmt::format("it is nested deeper than {}", kMaxJsonDepth));
    open_.emplace_back();
    return take(kElementBytes + kContainerBytes);
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::size_t room_;
  std::vector<std::set<std::string>> open_;  // the keys of each object that is open; none of an array
  std::string reason_;
};

}  // namespace

Result<nlohmann::ordered_json> parse_json(std::string_view text, std::size_t memory_bytes) {
  JsonLimits limits(memory_bytes);
  if (!nlohmann::ordered_json::sax_parse(text, &limits)) return invalid_input(limits.reason());
  return nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

JsonReader::JsonReader(const Json& json, std::string where, std::initializer_list<std::string_view> keys)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) {
    fail(invalid_input("is not an object"));
    return;
  }
  for (const auto& item : json.items()) {
    if (std::find(keys.begin(), keys.end(), item.key()) == keys.end()) {
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
  const bool fits = value->is_number_unsigned() ? value->get<std::uint64_t>() <= std::uint64_t{INT64_MAX}
                                                : value->is_number_integer();
  if (fits && value->get<std::int64_t>() >= minimum && value->get<std::int64_t>() <= maximum) {
    return value->get<std::int64_t>();
  }
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
