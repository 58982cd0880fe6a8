#include "sparsmith/status.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/enum_names.h"

namespace sparsmith {

const char* status_code_name(StatusCode code) {
  constexpr std::string_view kNames[] = {"ok",          "invalid argument", "invalid input", "not found",
                                         "unsupported", "no device",        "device error",  "out of memory",
                                         "i/o error",   "internal error"};
  // The C API is asked for any number.
  return static_cast<std::size_t>(code) < std::size(kNames) ? name_in(kNames, code).data() : "unknown";
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(status_code_name(code_)) + ": " + message_;
}

Status Status::annotate(const std::string& where) const {
  if (ok()) return *this;
  return {code_, where + ": " + message_};
}

void abort_on_error(const Status& error) {
  std::fprintf(stderr, "sparsmith: the value of an error was asked for: %s\n", error.to_string().c_str());
  std::abort();
}

}  // namespace sparsmith
