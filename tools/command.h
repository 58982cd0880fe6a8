// How a subcommand of `sparsmith` is made: tools/<name>_command.cc adds itself to the command line and returns what
// to run. A command parses options and prints; what a library user would need lives in the rooms.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

#include "sparsmith/status.h"

namespace sparsmith::tools {

// Exit codes of every command.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kWrongUsage = 2,
  kBadInput = 3,
  kNoUsableDevice = 4,
  kRegressionFound = 5
};

ExitCode exit_code_of(const Status& status);

// Set by a command's callback when it was chosen; main() runs it after parsing and exits with its value.
using Action = std::function<int()>;

// Options before the subcommand.
struct GlobalOptions {
  bool verbose = false;
  bool quiet = false;
};

void add_analyze_command(CLI::App& app, Action& action);
void add_synth_command(CLI::App& app, Action& action);
void add_tune_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_run_command(CLI::App& app, Action& action);
void add_show_command(CLI::App& app, Action& action);
void add_cache_command(CLI::App& app, Action& action);
void add_perf_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);
void add_space_command(CLI::App& app, Action& action);
void add_doctor_command(CLI::App& app, Action& action);

// `--max-memory`; 0 without it, which stands for half of the machine's memory.
void add_max_memory_option(CLI::App& command, std::int64_t& bytes);

// An option that there was once: an error that names the one that says the same now.
void add_removed_option(CLI::App& command, const std::string& name, const std::string& instead);

// Prints "error: <status>" to stderr and returns its exit code.
int report(const Status& status);

}  // namespace sparsmith::tools
