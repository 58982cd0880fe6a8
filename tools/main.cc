// The `sparsmith` command.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ranges>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/log.h"
#include "tools/command.h"
#include "tools/print.h"

#ifndef SPARSMITH_VERSION
#error "SPARSMITH_VERSION comes from the build"
#endif

namespace sparsmith::tools {
namespace {

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

// Prints "error: <status>" to stderr and returns its exit code.
int report(const Status& status) {
  log_error("{}", status.to_string());
  return exit_code_of(status);
}

// How many characters one word takes to become the other.
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// What is wrong with the first word that should name a command and does not; empty where all do.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) return "";
    if (word.starts_with("-")) continue;
    const auto found = std::ranges::find(commands, word, [](const CLI::App* each) { return each->get_name(); });
    if (found != commands.end()) {
      at = *found;
      continue;
    }
    const auto edits = [&](const CLI::App* each) { return edits_between(word, each->get_name()); };
    const CLI::App* const nearest = *std::ranges::min_element(commands, {}, edits);
    const auto names = commands | std::views::transform([](const CLI::App* each) { return each->get_name(); });
    return edits(nearest) <= 2
               ? fmt::format("{} has no command {}; do you mean {}?", at->get_name(), word, nearest->get_name())
               : fmt::format("{} has no command {}; its commands are {}", at->get_name(), word, fmt::join(names, ", "));
  }
  return "";
}

int run(int argc, char** argv) {
  CLI::App app(
      "Generates CUDA kernels for pruned weights: analyses a model's sparsity, generates, checks and times kernels, "
      "and keeps the best for each weight.",
      "sparsmith");
  app.set_version_flag("--version", SPARSMITH_VERSION);
  app.require_subcommand(1);
  bool verbose = false;
  bool quiet = false;
  app.add_flag("-v,--verbose", verbose, "Log details");
  app.add_flag("-q,--quiet", quiet, "Log errors only");
  app.fallthrough();

  Action action;
  for (const auto add : {add_analyze_command, add_tune_command, add_bench_command, add_run_command, add_show_command,
                         add_cache_command, add_perf_command, add_synth_command, add_report_command, add_space_command,
                         add_doctor_command, add_manual_commands})
    add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = unknown_command(app, {argv + 1, argv + argc});
    if (!unknown.empty()) return report(invalid_argument(unknown));
    app.exit(error);
    return kWrongUsage;
  }
  if (quiet) set_log_level(LogLevel::kError);
  if (verbose) set_log_level(LogLevel::kDebug);
  const Result<ExitCode> done = action();
  const int code = done.ok() ? *done : report(done.status());
  const Status flushed = flush_output();
  return flushed.ok() ? code : report(flushed);
}

}  // namespace
}  // namespace sparsmith::tools

int main(int argc, char** argv) {
  try {
    return sparsmith::tools::run(argc, argv);
  } catch (const nlohmann::json::exception& error) {
    return sparsmith::tools::report(sparsmith::internal_error(sparsmith::json_error(error)));
  } catch (const std::exception& error) {  // of a library, or no memory: ours return a Status
    return sparsmith::tools::report(sparsmith::internal_error(error.what()));
  }
}
