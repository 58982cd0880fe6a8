#include "tools/perf/perf_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "base/log.h"
#include "base/temporary_directory.h"
#include "matrix/safetensors.h"
#include "matrix/synthesis.h"
#include "tools/commands/tune_json.h"
#include "tools/print.h"

namespace sparsmith::tools {
namespace {

// One file in one type on one device.
struct Job {
  std::string name;
  TuneSettings settings;
  bool done = false;
};

Status draw(const SuiteEntry& entry, const std::string& path) {
  SynthesisSpec spec{.rows = entry.drawn.rows, .cols = entry.drawn.cols, .sparsity = entry.drawn.sparsity};
  SPARSMITH_ASSIGN_OR_RETURN(spec.pattern, parse_synthesis_pattern(entry.drawn.pattern));
  spec.seed = entry.drawn.seed;
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, synthesize(spec));
  const std::string bytes = dense_bytes(matrix);
  const SafetensorsPart part{entry.name,
                             std::string(safetensors_name(matrix.data_type)),
                             {matrix.rows, matrix.cols},
                             std::as_bytes(std::span(bytes))};
  return write_safetensors(path, {&part, 1}, {{"source", "a drawn weight of a suite"}});
}

// `text` as a shell pattern that matches nothing else.
std::string pattern_of(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Patterns for those weights of a file that are among the wanted cases' names. The entry's own where every case is
// wanted, or none is of a weight that the entry includes.
std::vector<std::string> wanted_weights(const SuiteEntry& entry, const std::set<std::string>& cases) {
  std::set<std::string> patterns;
  for (const std::string& name : cases) {
    const std::string weight = name.substr(0, name.rfind(" N="));
    const auto includes = [&](const std::string& pattern) { return matches(pattern, weight); };
    if (entry.include.empty() || std::ranges::any_of(entry.include, includes)) patterns.insert(pattern_of(weight));
  }
  return patterns.empty() ? entry.include : std::vector<std::string>(patterns.begin(), patterns.end());
}

// The token counts among the wanted cases' names; all where every case is wanted.
std::vector<std::int64_t> wanted_tokens(const SuiteEntry& entry, const std::set<std::string>& cases) {
  std::vector<std::int64_t> tokens;
  for (const std::int64_t n : entry.tokens) {
    const std::string ending = fmt::format(" N={}", n);
    const auto ends_so = [&](const std::string& name) { return name.ends_with(ending); };
    const bool known = entry.name.empty() || cases.contains(entry.name + ending);
    if (cases.empty() || (known && std::ranges::any_of(cases, ends_so))) tokens.push_back(n);
  }
  return tokens;
}

// The settings of a job but for its file, type and device.
TuneSettings settings_of(const Suite& suite, const SuiteEntry& entry, const SuiteRun& run) {
  TuneSettings settings;
  settings.layout = entry.layout;
  settings.accumulation = entry.accumulation;
  settings.epilogues = {entry.epilogue};
  settings.budget = suite.budget;
  settings.cache = run.cache;
  if (!entry.file.empty()) settings.selection.include = wanted_weights(entry, run.cases);
  settings.tuning.tokens = wanted_tokens(entry, run.cases);
  settings.tuning.compare = true;  // the choices of the first round are measured again in the others
  settings.tuning.keep_choices = run.keep_choices;
  settings.tuning.timing.min_replays = suite.repetitions;
  settings.tuning.timing.programmatic = suite.cache_policy == "cold_weights_programmatic";
  return settings;
}

Result<std::vector<Job>> jobs_of(const Suite& suite, const SuiteRun& run, const TemporaryDirectory& scratch) {
  if (scratch.path().empty()) return io_error("no temporary folder can be made: set TMPDIR");
  const auto or_default = [](const std::vector<std::string>& names) {
    return names.empty() ? std::vector<std::string>{""} : names;
  };
  std::vector<Job> jobs;
  for (const SuiteEntry& entry : suite.weights) {
    Job job{entry.name.empty() ? entry.file : entry.name, settings_of(suite, entry, run)};
    TuneSettings& settings = job.settings;
    if (settings.tuning.tokens.empty()) continue;
    if (settings.cache.empty()) settings.cache = scratch.file("cache.db");
    settings.file = entry.file.empty() ? scratch.file(fmt::format("{}.safetensors", jobs.size()))
                                       : (std::filesystem::path(run.folder) / entry.file).string();
    if (entry.file.empty()) SPARSMITH_RETURN_IF_ERROR(draw(entry, settings.file).annotate(entry.name));
    for (const std::string& device : or_default(suite.devices)) {
      if (!device.empty()) settings.devices = {device};
      for (const std::string& type : or_default(entry.dtypes)) {
        settings.dtype = type;
        jobs.push_back(job);
      }
    }
  }
  if (jobs.empty()) return invalid_input("no case of the suite has a name that was asked for");
  return jobs;
}

Status measure(Job& job, const SuiteRun& run, int round) {
  Result<Recording> recording = run.measure(job.settings);
  if (!recording.ok()) return recording.status().annotate(job.name);
  if (!run.cases.empty())
    std::erase_if(recording->measurements, [&](const auto& each) { return !run.cases.contains(each.key.name); });
  SPARSMITH_ASSIGN_OR_RETURN(const bool more, run.record(round, std::move(*recording)));
  job.done = !more;
  return {};
}

}  // namespace

// A round goes over all weights before the next one begins, so that rounds of a case lie apart.
Status run_suite(const Suite& suite, const SuiteRun& run) {
  const TemporaryDirectory scratch;
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<Job> jobs, jobs_of(suite, run, scratch));
  for (int round = 0; round < suite.rounds; ++round) {
    log_info("round {} of {}", round + 1, suite.rounds);
    for (Job& job : jobs) {
      if (!job.done) SPARSMITH_RETURN_IF_ERROR(measure(job, run, round));
    }
  }
  return {};
}

Result<Recording> measure_once(const TuneSettings& settings) {
  SPARSMITH_ASSIGN_OR_RETURN(const TuneOutcome outcome, run_tuning(settings, true));
  if (!outcome.report.measured && !outcome.report.weights.empty()) {
    const bool noted = !outcome.device_note.empty();
    return no_device("times are predicted here, and predictions are not recorded: " +
                     (noted ? outcome.device_note : "the emulator measures nothing"));
  }
  if (outcome.report.interrupted) return io_error("interrupted; the rounds before are recorded");
  return parse_bench_json(json_line(tuning_json(outcome)));
}

}  // namespace sparsmith::tools
