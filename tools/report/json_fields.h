// Reading JSON that others write and that may have more keys than are needed: what is there must be of the right type.
// For .cc files: it brings the whole JSON library.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "sparsmith/status.h"

namespace sparsmith::tools {

// The values of one object. The first error is remembered; what is read after it is a zero value.
class JsonFields {
 public:
  // `where` names the object in messages.
  JsonFields(const nlohmann::json& json, std::string where);

  // A value that must be there, and one that may be missing or null.
  std::string text(const char* key);
  std::string text_or(const char* key, const std::string& otherwise);
  double number(const char* key, double least, double most);  // finite
  double number_or(const char* key, double least, double most, double otherwise);
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most);
  const nlohmann::json& array(const char* key);
  const nlohmann::json& array_or_none(const char* key);   // an empty one when missing
  const nlohmann::json& object_or_none(const char* key);  // an empty one when missing

  void fail(const Status& status);
  const Status& status() const { return status_; }
  std::string place(const char* key) const { return where_ + "." + key; }
  std::string place(const char* key, std::size_t index) const;

 private:
  const nlohmann::json* find(const char* key) const;  // null: missing
  void wrong(const char* key, const std::string& what);

  const nlohmann::json& json_;
  std::string where_;
  Status status_;
};

}  // namespace sparsmith::tools
