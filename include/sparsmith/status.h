// Errors as values. Every function of sparsmith that can fail returns a Status, or a Result<T> that holds
// either a T or the Status that says why there is none. Nothing throws across the API.
//
// A message says what went wrong, where (file, tensor, line), why, and where there is one, what to do.
// Status and Result are plain values: safe to copy, and to read from any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "sparsmith/export.h"

namespace sparsmith {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,  // the caller asked for something that makes no sense
  kInvalidInput,     // a file or stream does not hold what it should
  kNotFound,         // no such tensor, choice, file, ...
  kUnsupported,      // sensible, but not possible with this build, format or device
  kNoDevice,         // no usable GPU, or a library that is needed to reach it is missing
  kDeviceError,      // the GPU, its driver, or a kernel failed
  kOutOfMemory,      // host or device memory does not suffice
  kIoError,          // the operating system refused to read or write
  kInternal,         // a bug in sparsmith
};

SPARSMITH_API const char* status_code_name(StatusCode code);

class [[nodiscard]] SPARSMITH_API Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "invalid input: model.smtx:3: ..."; "ok" when ok().
  std::string to_string() const;

  // The same error with `where` put before its message: Status::annotate("layers.0.weight").
  Status annotate(const std::string& where) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
inline Status invalid_input(std::string message) { return {StatusCode::kInvalidInput, std::move(message)}; }
inline Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
inline Status unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
inline Status no_device(std::string message) { return {StatusCode::kNoDevice, std::move(message)}; }
inline Status device_error(std::string message) { return {StatusCode::kDeviceError, std::move(message)}; }
inline Status out_of_memory(std::string message) { return {StatusCode::kOutOfMemory, std::move(message)}; }
inline Status io_error(std::string message) { return {StatusCode::kIoError, std::move(message)}; }
inline Status internal_error(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

// Prints the error and ends the program.
[[noreturn]] SPARSMITH_API void abort_on_error(const Status& error);

// A T, or the reason why there is none. value() ends the program where there is none; * and -> REQUIRE ok().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor): `return value;`
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor): `return error;`
    if (status_.ok()) status_ = internal_error("a Result was made from an ok Status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return checked(*this); }
  const T& value() const& { return checked(*this); }
  T&& value() && { return std::move(checked(*this)); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  template <class Self>
  static auto& checked(Self& self) {
    if (!self.ok()) abort_on_error(self.status_);
    return *self.value_;
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace sparsmith

// Returns the error of `expression` (a Status) from the enclosing function, if there is one.
#define SPARSMITH_RETURN_IF_ERROR(expression)              \
  do {                                                     \
    ::sparsmith::Status sparsmith_status_ = (expression);  \
    if (!sparsmith_status_.ok()) return sparsmith_status_; \
  } while (false)

#define SPARSMITH_CONCAT_INNER(a, b) a##b
#define SPARSMITH_CONCAT(a, b) SPARSMITH_CONCAT_INNER(a, b)

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
// SPARSMITH_ASSIGN_OR_RETURN(auto matrix, read_smtx(path)): the value, or an early return of the error.
#define SPARSMITH_ASSIGN_OR_RETURN(declaration, expression) \
  SPARSMITH_ASSIGN_OR_RETURN_IMPL(SPARSMITH_CONCAT(sparsmith_result_, __LINE__), declaration, expression)
#define SPARSMITH_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                            \
  if (!result.ok()) return result.status();                              \
  declaration = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
