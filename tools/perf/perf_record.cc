// `sparsmith perf record`.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/log.h"
#include "history/comparison.h"
#include "history/store.h"
#include "tools/command.h"
#include "tools/commands/tune_settings.h"
#include "tools/perf/perf_options.h"
#include "tools/perf/perf_suite.h"
#include "tools/print.h"

namespace sparsmith::tools {
namespace {

Result<std::string> read_input(const std::string& path) {
  if (path != "-") return read_file(path);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

// The measurements of a commit.
using Recorded = std::map<CaseKey, std::pair<PerfEnvironment, Implementation>>;

Result<Recorded> recorded_of(PerfStore& store, const std::string& commit) {
  Recorded recorded;
  if (commit.empty()) return recorded;
  SPARSMITH_ASSIGN_OR_RETURN(const std::string hash, store.resolve(commit));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<PerfStore::Round> rounds, store.rounds({.commit = hash}));
  for (const PerfStore::Round& round : rounds) {
    SPARSMITH_ASSIGN_OR_RETURN(Implementation implementation, store.implementation(round.implementation));
    recorded[round.key] = {round.environment, std::move(implementation)};
  }
  return recorded;
}

// Whether a measurement runs the very same code, in the same environment, as the commit.
bool has(const Recorded& recorded, const PerfMeasurement& measurement, const PerfEnvironment& environment) {
  const auto found = recorded.find(measurement.key);
  return found != recorded.end() && found->second.first == environment &&
         cause_of(found->second.second, measurement.implementation) == Cause::kNone;
}

// Stores recordings under the options' commit, and counts what it stored.
class Recorder {
 public:
  Recorder(PerfStore& store, const PerfOptions& options) : store_(store), options_(options) {}

  Status add(Recording recording) {
    PerfRun run = options_.run;
    run.environment = recording.environment;
    if (!options_.clocks.empty()) run.environment.clocks = options_.clocks;
    run.program_version = recording.program_version;
    run.search_s = recording.search_s;
    for (const std::string& reason : recording.left_out) left_out_.insert(reason);
    if (recording.measurements.empty()) return {};
    SPARSMITH_RETURN_IF_ERROR(store_.record(run, recording.measurements));
    for (const PerfMeasurement& measurement : recording.measurements) {
      cases_.insert(measurement.key);
      samples_ += measurement.samples_us.size();
    }
    rounds_ += recording.measurements.size();
    return {};
  }

  Result<ExitCode> finish() const {
    for (const std::string& reason : left_out_) log_warning("not recorded: {}", reason);
    if (rounds_ == 0) return invalid_input("nothing was measured, so nothing is recorded");
    print_result(options_.json,
                 nlohmann::json{{"database", store_.path()},
                                {"commit", options_.run.commit},
                                {"cases", cases_.size()},
                                {"rounds", rounds_},
                                {"samples", samples_},
                                {"left_out", left_out_}},
                 fmt::format("recorded {}: {} cases, {} rounds, {} samples\n", options_.run.commit, cases_.size(),
                             rounds_, samples_));
    return kDone;
  }

 private:
  PerfStore& store_;
  const PerfOptions& options_;
  std::set<CaseKey> cases_;
  std::set<std::string> left_out_;
  std::size_t rounds_ = 0;
  std::size_t samples_ = 0;
};

Result<std::set<std::string>> wanted_cases(const PerfOptions& options) {
  std::set<std::string> names(options.only.begin(), options.only.end());
  if (options.cases.empty()) return names;
  SPARSMITH_ASSIGN_OR_RETURN(const std::string text, read_file(options.cases));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) names.insert(line);
  }
  if (names.empty()) return invalid_input(fmt::format("{}: names no case", options.cases));
  return names;
}

std::string suite_command(const PerfOptions& options, const std::string& database, const std::string& name) {
  return fmt::format("sparsmith perf record {} --only {} --commit {} --db {}", shell_word(options.suite),
                     shell_word(name), kCommitOfCommand, shell_word(database));
}

Status record_suite(const PerfOptions& options, PerfStore& store, Recorder& recorder) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::string text, read_file(options.suite));
  Result<Suite> suite = parse_suite(text);
  if (!suite.ok()) return suite.status().annotate(options.suite);
  if (options.rounds > 0) suite->rounds = options.rounds;
  SPARSMITH_ASSIGN_OR_RETURN(const Recorded recorded, recorded_of(store, options.against));
  SuiteRun run;
  run.folder = std::filesystem::path(options.suite).parent_path().string();
  run.cache = options.cache;
  run.keep_choices = options.keep_choices;
  SPARSMITH_ASSIGN_OR_RETURN(run.cases, wanted_cases(options));
  run.measure = measure_once;
  run.record = [&](int, Recording recording) -> Result<bool> {
    if (!options.clocks.empty()) recording.environment.clocks = options.clocks;
    bool changed = false;
    for (PerfMeasurement& measurement : recording.measurements) {
      measurement.command = suite_command(options, store.path(), measurement.key.name);
      changed = changed || !has(recorded, measurement, recording.environment);
    }
    SPARSMITH_RETURN_IF_ERROR(recorder.add(std::move(recording)));
    return changed;
  };
  return run_suite(*suite, run);
}

using Parser = Result<Recording> (*)(std::string_view);

Status record_files(const std::vector<std::string>& paths, Parser parse, Recorder& recorder) {
  for (const std::string& path : paths) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::string text, read_input(path));
    Result<Recording> recording = parse(text);
    if (!recording.ok()) return recording.status().annotate(path);
    SPARSMITH_RETURN_IF_ERROR(recorder.add(std::move(*recording)));
  }
  return {};
}

}  // namespace

Result<ExitCode> perf_record(const PerfOptions& options) {
  const int sources =
      (options.suite.empty() ? 0 : 1) + (options.bench.empty() ? 0 : 1) + (options.google_benchmark.empty() ? 0 : 1);
  if (sources != 1) return invalid_argument("give one of: a suite, --bench FILE, or --google-benchmark FILE");
  SPARSMITH_ASSIGN_OR_RETURN(PerfStore store, PerfStore::open(options.database, PerfStore::Mode::kReadWrite));
  Recorder recorder(store, options);
  if (!options.suite.empty()) SPARSMITH_RETURN_IF_ERROR(record_suite(options, store, recorder));
  SPARSMITH_RETURN_IF_ERROR(record_files(options.bench, parse_bench_json, recorder));
  SPARSMITH_RETURN_IF_ERROR(record_files(options.google_benchmark, parse_google_benchmark, recorder));
  return recorder.finish();
}

}  // namespace sparsmith::tools
