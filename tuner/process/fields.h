// Structs as messages. A struct lists its fields once. This list encodes and decodes calls, replies, and the structs in
// them:
//
//   struct TokensCall {
//     static constexpr const char* kName = "tokens";
//     std::int64_t tokens = 1;
//     void fields(auto& f) {
//       f("tokens", tokens);
//       f.require(tokens >= 0, "tokens is negative");
//     }
//   };
//
// A struct of another room has a free function fields(f, value) instead; SPARSMITH_FIELDS (call.h) writes one
// that lists members by their own names. Fields are numbers, strings, structs, vectors
// and maps of these, and optional values. f.text() is for a value that has a name, f.blob() for large arrays, which
// travel behind the JSON. f.require() states a check of the decoder.
//
// Only for .cc files: the header includes the whole JSON library.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "sparsmith/status.h"
#include "tuner/process/message.h"

namespace sparsmith {

template <class Fields, class T>
void list_fields(Fields& f, T& value) {
  if constexpr (requires { value.fields(f); }) {
    value.fields(f);
  } else {
    fields(f, value);
  }
}

class MessageWriter {
 public:
  using Json = nlohmann::json;

  explicit MessageWriter(OutgoingMessage& message) : message_(message) {}

  template <class T>
  void operator()(const char* key, T& value) {
    object_[key] = json_of(value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    if (value) object_[key] = json_of(*value);
  }
  template <class T, class Name, class Parse>
  void text(const char* key, T& value, const Name& name, const Parse&) {
    object_[key] = name(value);
  }
  template <class T>
  void blob(T& values) {
    message_.blobs.push_back(std::as_bytes(std::span(values)));
  }
  void require(bool, const char*) {}

  // Does not change `value`. REQUIRES: its arrays live until the message is sent.
  template <class T>
  Json json_of(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      MessageWriter inside(message_);
      list_fields(inside, const_cast<T&>(value));  // fields() serves both directions
      return std::move(inside.object_);
    }
  }
  // JSON has no infinity and no NaN, so they become texts.
  Json json_of(const double& value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  template <class T>
  Json json_of(const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(json_of(value));
    return array;
  }
  template <class T>
  Json json_of(const std::map<std::string, T>& values) {
    return values;
  }

 private:
  OutgoingMessage& message_;
  Json object_ = Json::object();
};

// Reads one object of a message. Keeps the first error. Fields read after an error keep their values.
class MessageReader {
 public:
  using Json = nlohmann::json;
  struct Source {
    explicit Source(std::vector<std::vector<std::byte>> all) : blobs(std::move(all)) {}
    std::vector<std::vector<std::byte>> blobs;
    std::size_t blobs_taken = 0;
    Status status;
    void fail(const std::string& reason) {
      if (status.ok()) status = invalid_input("a message: " + reason);
    }
  };

  MessageReader(const Json& object, Source& source) : object_(object), source_(source) {
    if (!object.is_object()) source_.fail("an object is missing");
  }

  template <class T>
  void operator()(const char* key, T& value) {
    if (const Json* const found = find(key)) read(*found, key, value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    if (object_.is_object() && object_.contains(key)) read(object_[key], key, value.emplace());
  }
  // `parse` converts the text to a Result.
  template <class T, class Name, class Parse>
  void text(const char* key, T& value, const Name&, const Parse& parse) {
    std::string text;
    (*this)(key, text);
    if (!source_.status.ok()) return;
    Result<T> parsed = parse(text);
    if (parsed.ok()) {
      value = *std::move(parsed);
    } else {
      fail(key, parsed.status().message());
    }
  }
  template <class T>
  void blob(T& values) {
    if (source_.blobs_taken == source_.blobs.size()) return source_.fail("a blob is missing");
    std::vector<std::byte>& bytes = source_.blobs[source_.blobs_taken++];
    using Element = typename T::value_type;
    require(bytes.size() % sizeof(Element) == 0, "a blob ends inside of an element");
    if constexpr (std::is_same_v<T, std::vector<std::byte>>) {
      values = std::move(bytes);
    } else {
      values.resize(bytes.size() / sizeof(Element));
      if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Element));
    }
  }
  void require(bool holds, const char* otherwise) {
    if (!holds) source_.fail(otherwise);
  }

 private:
  const Json* find(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    fail(key, "is missing");
    return nullptr;
  }
  void fail(const std::string& key, const std::string& reason) { source_.fail("\"" + key + "\": " + reason); }

  template <class T>
  void read(const Json& json, const char* key, T& value) {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
      const bool fits = std::is_same_v<T, bool> ? json.is_boolean() : json.is_string();
      if (!fits) return fail(key, "is of another type");
      json.get_to(value);
    } else if constexpr (std::is_integral_v<T>) {
      read_integer(json, key, value);
    } else {
      MessageReader inside(json, source_);
      if (source_.status.ok()) list_fields(inside, value);
    }
  }
  template <std::floating_point T>
  void read(const Json& json, const char* key, T& value) {
    if (json.is_number()) {
      json.get_to(value);
    } else if (json == "inf" || json == "-inf") {
      value = json == "inf" ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
    } else if (json == "nan") {
      value = std::numeric_limits<T>::quiet_NaN();
    } else {
      fail(key, "is not a number");
    }
  }
  template <class T>
  void read_integer(const Json& json, const char* key, T& value) {
    const auto integer = [&] {
      using Limits = std::numeric_limits<T>;
      if constexpr (std::is_unsigned_v<T>) return json_unsigned(json);
      if constexpr (std::is_signed_v<T>) return json_integer(json, Limits::min(), Limits::max());
    }();
    if (!integer) return fail(key, "is not an integer in range");
    value = static_cast<T>(*integer);
  }
  template <class T>
  void read(const Json& json, const char* key, std::vector<T>& values) {
    if (!json.is_array()) return fail(key, "is not an array");
    values.clear();
    for (const Json& each : json) read(each, key, values.emplace_back());
  }
  template <class T>
  void read(const Json& json, const char* key, std::map<std::string, T>& values) {
    if (!json.is_object()) return fail(key, "is not an object");
    for (const auto& [name, each] : json.items()) read(each, key, values[name]);
  }

  const Json& object_;
  Source& source_;
};

}  // namespace sparsmith
