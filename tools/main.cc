// The `sparsmith` command.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>
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
    std::string names;
    for (const CLI::App* each : commands) names += (names.empty() ? "" : ", ") + each->get_name();
    return edits(nearest) <= 2
               ? fmt::format("{} has no command {}; do you mean {}?", at->get_name(), word, nearest->get_name())
               : fmt::format("{} has no command {}; its commands are {}", at->get_name(), word, names);
  }
  return "";
}

int run(int argc, char** argv) {
  CLI::App app(
      "Forges CUDA kernels for pruned weights: analyses a model's sparsity, generates, checks and times kernels, "
      "and keeps the best for each weight.",
      "sparsmith");
  app.set_version_flag("--version", SPARSMITH_VERSION);
  app.require_subcommand(1);
  GlobalOptions global;
  app.add_flag("-v,--verbose", global.verbose, "Log what goes on inside");
  app.add_flag("-q,--quiet", global.quiet, "Log errors only");
  app.fallthrough();

  Action action;
  add_analyze_command(app, action);
  add_tune_command(app, action);
  add_bench_command(app, action);
  add_run_command(app, action);
  add_show_command(app, action);
  add_cache_command(app, action);
  add_perf_command(app, action);
  add_synth_command(app, action);
  add_report_command(app, action);
  add_space_command(app, action);
  add_doctor_command(app, action);
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
  if (global.quiet) set_log_level(LogLevel::kError);
  if (global.verbose) set_log_level(LogLevel::kDebug);
  const int code = action();
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
