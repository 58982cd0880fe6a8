#include "tools/command.h"

#include "base/log.h"

namespace sparsmith::tools {

ExitCode exit_code_of(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk: return kDone;
    case StatusCode::kInvalidArgument: return kWrongUsage;
    case StatusCode::kInvalidInput:
    case StatusCode::kNotFound: return kBadInput;
    case StatusCode::kNoDevice: return kNoUsableDevice;
    default: return kFailed;
  }
}

int report(const Status& status) {
  log_error("{}", status.to_string());
  return exit_code_of(status);
}

}  // namespace sparsmith::tools
