// Reading JSON strictly: every value is asked for by name and type, and what is wrong is said with its place. Internal.
//
// A reader remembers the first error, so that a function reads all its values and asks status() once; what is read
// after an error is a zero value.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "sparsmith/status.h"

namespace sparsmith {

class JsonReader {
 public:
  using Json = nlohmann::json;

  // An object that may hold `keys` and `more` and no others; `where` says which, in messages.
  JsonReader(const Json& json, std::string where, std::initializer_list<std::string_view> keys,
             std::initializer_list<std::string_view> more = {});

  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  std::string text(const char* key);
  std::int64_t integer(const char* key, std::int64_t minimum, std::int64_t maximum);
  double number(const char* key);
  const Json& array(const char* key);   // an empty one after an error
  const Json& object(const char* key);  // an empty one after an error

  // Takes a Result's value, or its error as the reader's own.
  template <class T>
  T take(Result<T> result, T otherwise = {}) {
    if (result.ok()) return std::move(result).value();
    fail(result.status());
    return otherwise;
  }
  void fail(const Status& status);
  void fail(std::string_view key, std::string_view reason);

  const Status& status() const { return status_; }
  const std::string& where() const { return where_; }

 private:
  const Json* find(const char* key);

  const Json& json_;
  std::string where_;
  Status status_;
};

}  // namespace sparsmith
