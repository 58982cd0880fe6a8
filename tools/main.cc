// The `sparsmith` command.
#include <exception>

#include "base/log.h"
#include "tools/command.h"

#ifndef SPARSMITH_VERSION
#error "SPARSMITH_VERSION comes from the build"
#endif

namespace sparsmith::tools {
namespace {

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
    app.exit(error);
    return kWrongUsage;
  }
  if (global.quiet) set_log_level(LogLevel::kError);
  if (global.verbose) set_log_level(LogLevel::kDebug);
  return action();
}

}  // namespace
}  // namespace sparsmith::tools

int main(int argc, char** argv) {
  try {
    return sparsmith::tools::run(argc, argv);
  } catch (const std::exception& error) {  // of a library, or no memory: ours return a Status
    return sparsmith::tools::report(sparsmith::internal_error(error.what()));
  }
}
