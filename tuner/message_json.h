// JSON in the headers of messages: what the protocols of worker and compiler share. Internal; included by the sources
// that encode and decode alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_text.h"
#include "sparsmith/status.h"

namespace sparsmith {

using nlohmann::json;

// Thrown and caught inside of those sources alone, for what is valid JSON and yet no message.
struct DecodeError {
  std::string message;
};

[[noreturn]] inline void refuse(std::string message) { throw DecodeError{std::move(message)}; }

// A kernel's source or a driver's message may hold anything; what is no UTF-8 is replaced.
inline std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// JSON has no word for what is not finite.
inline json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

inline double number_of(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto& text = value.get_ref<const std::string&>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text != "nan") refuse("not a number: " + text);
  return std::numeric_limits<double>::quiet_NaN();
}

inline std::int64_t integer_of(const json& value, std::int64_t limit = std::numeric_limits<std::int64_t>::max()) {
  if (!value.is_number_integer()) refuse("not an integer: " + dumped(value));
  const auto integer = json_integer(value, -limit, limit);
  if (!integer) refuse("out of range: " + dumped(value));
  return *integer;
}

inline int small_integer_of(const json& value) { return static_cast<int>(integer_of(value, 2'000'000'000)); }

// REQUIRES: an error.
inline json to_json(const Status& error) {
  return {{"code", static_cast<int>(error.code())}, {"message", error.message()}};
}

inline Status error_of(const json& value) {
  const int code = small_integer_of(value.at("code"));
  if (code <= static_cast<int>(StatusCode::kOk) || code > static_cast<int>(StatusCode::kInternal))
    refuse("no such error code");
  return {static_cast<StatusCode>(code), value.at("message")};
}

// Runs `decode`, which makes a T or a Result<T>, and makes a Status of what it throws.
template <class T, class Decode>
Result<T> decoded(const Decode& decode) {
  try {
    return decode();
  } catch (const DecodeError& error) {
    return invalid_input("a message: " + error.message);
  } catch (const json::exception& error) {
    return invalid_input(std::string("a message: ") + error.what());
  }
}

}  // namespace sparsmith
