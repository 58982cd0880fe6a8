#include "tools/command.h"

#include <limits>

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

void add_max_memory_option(CLI::App& command, std::int64_t& bytes) {
  command.add_option("--max-memory", bytes, "Memory that a weight may take, as 8GB; default: half of the machine's")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()));
}

void add_removed_option(CLI::App& command, const std::string& name, const std::string& instead) {
  const auto refuse = [name, instead](const std::string&) {
    throw CLI::ValidationError(name, "there is no such option; give " + instead);
  };
  command.add_option(name)->group("")->each(refuse);
}

int report(const Status& status) {
  log_error("{}", status.to_string());
  return exit_code_of(status);
}

}  // namespace sparsmith::tools
