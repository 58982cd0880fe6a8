#include "tools/perf_suite.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "base/log.h"
#include "base/temporary_directory.h"
#include "matrix/safetensors.h"
#include "matrix/synthesis.h"

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
  const std::array<SafetensorsPart, 1> parts = {SafetensorsPart{entry.name,
                                                                std::string(safetensors_name(matrix.data_type)),
                                                                {matrix.rows, matrix.cols},
                                                                std::as_bytes(std::span(bytes))}};
  return write_safetensors(path, parts, {{"source", "a drawn weight of a suite"}});
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
    const auto matches = [&](const std::string& pattern) { return fnmatch(pattern.c_str(), weight.c_str(), 0) == 0; };
    if (entry.include.empty() || std::ranges::any_of(entry.include, matches)) patterns.insert(pattern_of(weight));
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

class SuiteJobs {
 public:
  SuiteJobs(const Suite& suite, const SuiteRun& run) : suite_(suite), run_(run) {}

  Status prepare() {
    if (scratch_.path().empty()) return io_error("no temporary folder can be made: set TMPDIR");
    const std::vector<std::string> devices = suite_.devices.empty() ? std::vector<std::string>{""} : suite_.devices;
    for (const SuiteEntry& entry : suite_.weights) {
      const std::vector<std::int64_t> tokens = wanted_tokens(entry, run_.cases);
      if (tokens.empty()) continue;
      SPARSMITH_ASSIGN_OR_RETURN(const std::string file, file_of(entry));
      const std::vector<std::string> types = entry.dtypes.empty() ? std::vector<std::string>{""} : entry.dtypes;
      for (const std::string& device : devices) {
        for (const std::string& type : types) add_job(entry, file, type, device, tokens);
      }
    }
    if (jobs_.empty()) return invalid_input("no case of the suite has a name that was asked for");
    return {};
  }

  // A round goes over all weights before the next one begins, so that rounds of a case lie apart.
  Status measure() {
    for (int round = 0; round < suite_.rounds; ++round) {
      log_info("round {} of {}", round + 1, suite_.rounds);
      for (Job& job : jobs_) {
        if (!job.done) SPARSMITH_RETURN_IF_ERROR(measure(job, round));
      }
    }
    return {};
  }

 private:
  Result<std::string> file_of(const SuiteEntry& entry) {
    if (!entry.file.empty()) return (std::filesystem::path(run_.folder) / entry.file).string();
    const std::string path = scratch_.file(fmt::format("{}.safetensors", jobs_.size()));
    const Status drawn = draw(entry, path);
    return drawn.ok() ? Result<std::string>(path) : drawn.annotate(entry.name);
  }

  void add_job(const SuiteEntry& entry, const std::string& file, const std::string& type, const std::string& device,
               const std::vector<std::int64_t>& tokens) {
    Job& job = jobs_.emplace_back();
    job.name = entry.name.empty() ? entry.file : entry.name;
    TuneSettings& settings = job.settings;
    settings.file = file;
    settings.dtype = type;
    if (!device.empty()) settings.devices = {device};
    settings.layout = entry.layout;
    settings.accumulation = entry.accumulation;
    settings.epilogue = entry.epilogue;
    settings.budget = suite_.budget;
    settings.cache = run_.cache.empty() ? scratch_.file("cache.db") : run_.cache;
    if (!entry.file.empty()) settings.selection.include = wanted_weights(entry, run_.cases);
    settings.tuning.tokens = tokens;
    settings.tuning.compare = true;  // what was chosen in the first round is measured again in the others
    settings.tuning.keep_choices = run_.keep_choices;
    settings.tuning.timing.min_replays = suite_.repetitions;
    settings.tuning.timing.programmatic = suite_.cache_policy == "cold_weights_programmatic";
  }

  Status measure(Job& job, int round) {
    Result<Recording> recording = run_.measure(job.settings);
    if (!recording.ok()) return recording.status().annotate(job.name);
    if (!run_.cases.empty()) {
      std::erase_if(recording->measurements,
                    [&](const PerfMeasurement& m) { return !run_.cases.contains(m.key.name); });
    }
    SPARSMITH_ASSIGN_OR_RETURN(const bool more, run_.record(round, std::move(*recording)));
    job.done = !more;
    return {};
  }

  const Suite& suite_;
  const SuiteRun& run_;
  TemporaryDirectory scratch_;
  std::vector<Job> jobs_;
};

}  // namespace

Status run_suite(const Suite& suite, const SuiteRun& run) {
  SuiteJobs jobs(suite, run);
  SPARSMITH_RETURN_IF_ERROR(jobs.prepare());
  return jobs.measure();
}

}  // namespace sparsmith::tools
