// Reads the values of a JSON object by name and type. Errors name the place: "weights[0]: "rows" is not an integer from
// 1 to 65536". Only for .cc files: the header includes the whole JSON library.
//
// A reader keeps the first error. So a function reads all values and then checks status() once. After an error all
// values are read as zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

class JsonReader {
 public:
  using Json = nlohmann::json;

  // An object with any keys. `where`: the object's place in messages.
  JsonReader(const Json& json, std::string where);
  // An object that may only have the keys in `keys` and `more`.
  JsonReader(const Json& json, std::string where, std::initializer_list<std::string_view> keys,
             std::initializer_list<std::string_view> more = {});

  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  // Required values. Numbers are finite. After an error arrays and objects are empty.
  std::string text(const char* key);
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most);
  std::uint64_t unsigned_integer(const char* key);  // 64 bits, for seeds
  double number(const char* key, double least = std::numeric_limits<double>::lowest(),
                double most = std::numeric_limits<double>::max());
  bool boolean(const char* key);
  const Json& array(const char* key);
  const Json& object(const char* key);
  std::vector<std::string> texts(const char* key);
  std::vector<std::int64_t> integers(const char* key, std::int64_t least, std::int64_t most);
  std::vector<double> numbers(const char* key, double least, double most);
  // Optional values: they may be missing or null.
  std::string text_or(const char* key, const std::string& otherwise);
  double number_or(const char* key, double least, double most, double otherwise);
  const Json& array_or_none(const char* key);
  const Json& object_or_none(const char* key);

  // Returns the Result's value. An error becomes the reader's error.
  template <class T>
  T take(Result<T> result, T otherwise = {}) {
    if (result.ok()) return std::move(result).value();
    fail(result.status());
    return otherwise;
  }
  void fail(const Status& status);
  void fail(std::string_view key, std::string_view reason);
  // Takes over the error of an inner value, whose message already has its place.
  void adopt(const Status& inside);

  const Status& status() const { return status_; }
  const std::string& where() const { return where_; }
  // The place of an inner value: "run.json.weights[3]".
  std::string place(const char* key) const { return where_ + "." + key; }
  std::string place(const char* key, std::size_t index) const;

 private:
  const Json* find(const char* key);
  // `take` converts the JSON to an optional value. An empty optional is an error with the text of reason().
  template <class Take, class Reason>
  auto value(const char* key, const Take& take, const Reason& reason);
  // The array or object with this key; `empty` after an error.
  const Json& container(const char* key, const Json& empty);
  // The elements of an array. `read` converts each to an optional.
  template <class T, class Read>
  std::vector<T> elements(const char* key, std::string_view kind, const Read& read);
  bool is_missing(const char* key) const;

  const Json& json_;
  std::string where_;
  Status status_;
};

}  // namespace sparsmith
