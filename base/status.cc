#include "sparsmith/status.h"

#include <cstdio>
#include <cstdlib>

namespace sparsmith {

const char* status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kInvalidInput: return "invalid input";
    case StatusCode::kNotFound: return "not found";
    case StatusCode::kUnsupported: return "unsupported";
    case StatusCode::kNoDevice: return "no device";
    case StatusCode::kDeviceError: return "device error";
    case StatusCode::kOutOfMemory: return "out of memory";
    case StatusCode::kIoError: return "i/o error";
    case StatusCode::kInternal: return "internal error";
  }
  return "unknown";
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
