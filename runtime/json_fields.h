// Structs as JSON objects. One function lists the fields for both directions: it calls `f`, a JsonFieldWriter or a
// JsonFieldReader, for each field in the order of the file. Only for .cc files: the header includes the whole JSON
// library.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/enum_names.h"
#include "base/json_reader.h"
#include "sparsmith/status.h"

namespace sparsmith {

class JsonFieldWriter {
 public:
  using Json = nlohmann::ordered_json;
  static constexpr bool reads() { return false; }

  template <class T>
  void operator()(const char* key, const T& value, std::int64_t /*least*/ = 0, std::int64_t /*most*/ = 0) {
    json[key] = value;
  }
  template <class T, class Write, class Read>
  void value(const char* key, const T& value, const Write& write, const Read& /*read*/) {
    json[key] = write(value);
  }
  template <class Fields>
  void object(const char* key, const Fields& fields) {
    JsonFieldWriter inside;
    fields(inside);
    json[key] = std::move(inside.json);
  }
  // Whether an optional field is present: the writer leaves it out unless `given`.
  bool has(const char* /*key*/, bool given) const { return given; }
  template <class T, class Fields>
  void list(const char* key, const std::vector<T>& items, const Fields& fields, std::size_t /*most*/ = 0) {
    Json& array = json[key] = Json::array();
    for (const T& item : items) {
      JsonFieldWriter inside;
      fields(inside, const_cast<T&>(item));  // `fields` takes a mutable item; the writer only reads it
      array.push_back(std::move(inside.json));
    }
  }

  // No effect here; only the reader reports errors.
  void fail(std::string_view /*key*/, std::string_view /*reason*/) {}
  void call(const std::string& /*name*/) {}

  Json json = Json::object();
};

// Keeps the first error. Fields read after an error keep their values.
class JsonFieldReader {
 public:
  using Json = nlohmann::json;
  static constexpr bool reads() { return true; }

  // where: the object's name in messages.      inside: the prefix of the places of inner values.
  JsonFieldReader(const Json& json, const std::string& where, std::string inside)
      : json_(json), reader_(json, where), inside_(std::move(inside)) {}

  void operator()(const char* key, std::string& value) { value = reader_.text(ask(key)); }
  void operator()(const char* key, double& value) { value = reader_.number(ask(key)); }
  void operator()(const char* key, bool& value) { value = reader_.boolean(ask(key)); }
  template <std::integral T>
  void operator()(const char* key, T& value, std::int64_t least, std::int64_t most = std::numeric_limits<T>::max()) {
    value = static_cast<T>(reader_.integer(ask(key), least, most));
  }
  // `read` converts the JSON to a Result.
  template <class T, class Write, class Read>
  void value(const char* key, T& value, const Write& /*write*/, const Read& read) {
    ask(key);
    if (!reader_.has(key)) fail(key, "is missing");
    if (!status().ok()) return;
    auto result = read(json_[key]);
    if (result.ok()) {
      value = *std::move(result);
    } else {
      reader_.adopt(result.status().annotate(inside_.empty() ? reader_.place(key) : inside_ + "." + key));
    }
  }
  bool has(const char* key, bool /*given*/) const { return reader_.has(key); }
  template <class T, class Fields>
  void list(const char* key, std::vector<T>& items, const Fields& fields,
            std::size_t most = std::numeric_limits<std::size_t>::max()) {
    const Json& array = reader_.array(ask(key));
    if (array.size() > most) fail(key, fmt::format("has {} entries; at most {} are taken", array.size(), most));
    for (std::size_t i = 0; i < array.size() && status().ok(); ++i) {
      const std::string place = fmt::format("{}{}{}[{}]", inside_, inside_.empty() ? "" : ".", key, i);
      JsonFieldReader inside(array[i], place, place);
      fields(inside, items.emplace_back());
      reader_.adopt(inside.finish());
    }
  }

  template <class Fields>
  void object(const char* key, const Fields& fields) {
    JsonFieldReader inside(reader_.object(ask(key)), key, key);
    if (status().ok()) fields(inside);
    if (status().ok()) reader_.adopt(inside.finish());
  }

  void fail(std::string_view key, std::string_view reason) { reader_.fail(key, reason); }
  // Adds the name to the places in later messages.
  void call(const std::string& name) { inside_ = fmt::format("{} ({})", inside_, name); }

  const Status& status() const { return reader_.status(); }
  // The first error. A key that was not read is an error too.
  Status finish() {
    for (auto item = json_.begin(); status().ok() && item != json_.end(); ++item)
      if (std::ranges::find(asked_, item.key()) == asked_.end())
        reader_.fail(invalid_input(fmt::format("unknown key \"{}\"", item.key())));
    return status();
  }

 private:
  const char* ask(const char* key) {
    asked_.emplace_back(key);
    return key;
  }

  const Json& json_;
  JsonReader reader_;
  std::string inside_;
  std::vector<std::string_view> asked_;
};

// A text field. `parse` converts the text to a Result or an optional; `reason` is the error message for an empty
// optional.
template <class F, class T, class Name, class Parse>
void text_field(F& f, const char* key, T& value, const Name& name, const Parse& parse, const char* reason = "") {
  f.value(key, value, name, [&](const nlohmann::json& json) -> Result<std::remove_const_t<T>> {
    if (!json.is_string()) return invalid_input("is not a string");
    auto parsed = parse(json.get_ref<const std::string&>());
    if constexpr (requires { parsed.status(); }) {
      return parsed;
    } else {
      return parsed ? Result<std::remove_const_t<T>>(*std::move(parsed)) : invalid_input(reason);
    }
  });
}

}  // namespace sparsmith
