// The interface of the subcommands of `sparsmith`: each tools/<name>_command.cc adds itself to the command line and
// sets the action to run. A command only parses options and prints. Code that is useful to library users is in the
// other rooms.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>

#include "matrix/model_analysis.h"
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

// The callback of the chosen command sets the action. main() runs it after parsing and exits with its value, or with
// the code of its error.
using Action = std::function<Result<ExitCode>()>;

// When the command is chosen, sets the action to a call of `run` with the command's options.
template <class Options>
void set_action(CLI::App& command, Action& action, const std::shared_ptr<Options>& options,
                Result<ExitCode> (*run)(const Options&)) {
  command.callback([&action, options, run] { action = [options, run] { return run(*options); }; });
}

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
void add_manual_commands(CLI::App& app, Action& action);

// Adds an option with its default in --help.
template <class T>
CLI::Option* add_shown(CLI::App& command, const std::string& name, T& value, const std::string& description) {
  return command.add_option(name, value, description)->capture_default_str();
}

// Adds `--include`, `--exclude` and `--min-sparsity`.
void add_selection_options(CLI::App& command, SelectionOptions& selection);

// Adds `--html` and its `--force`.
void add_page_options(CLI::App& command, std::string& html, bool& force);

// Adds `--max-memory`. `bytes` is 0 without it: half of the machine's memory.
void add_max_memory_option(CLI::App& command, std::int64_t& bytes);

}  // namespace sparsmith::tools
