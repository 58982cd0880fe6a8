// The common part of `tune` and `bench`: their options, and the run from a model file to a report.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

#include "matrix/model_analysis.h"
#include "search/rank_parts.h"
#include "search/tune.h"
#include "tools/output_files.h"

namespace sparsmith::tools {

struct TuneSettings {
  std::string file;
  std::vector<std::string> kinds = {"spmm"};  // of the operators
  std::string dtype;
  std::string layout = "token_major";
  std::string accumulation = "fp32";
  std::vector<std::string> epilogues = {"none"};  // texts for parse_weight_epilogue()
  std::string memory = "1x";
  std::string strategy = "race";
  int candidates = 0;
  std::string record;
  std::string budget;
  std::string shard;                 // text for parse_shard(); empty: all weights
  std::vector<std::string> devices;  // by name, or "none"; empty: the first GPU, or the emulator, or none
  std::string cache;
  bool no_cache = false;
  std::uint64_t value_seed = 0;
  std::int64_t max_memory = 0;      // as in ModelFileOptions
  SelectionOptions selection;       // except its groups and splits:
  std::vector<std::string> groups;  // texts for parse_group_pattern()
  std::vector<std::string> splits;  // texts for parse_split_pattern(), for selection.ranks
  TuneOptions tuning;
  bool ablation = false;  // run_tuning() also times chosen kernels without their parts
};

void add_tune_options(CLI::App& command, TuneSettings& settings);
// Adds `--tensor-parallel` and `--split`. REQUIRES: `command` has the options above.
void add_rank_options(CLI::App& command, TuneSettings& settings);

// The libraries for --vs. The first is the dense library, which is always measured.
inline constexpr const char* kDenseLibrary = "cublas";
inline const std::vector<std::string> kLibraries = {kDenseLibrary, "cusparse", "cusparselt"};

// "90", "90s", "10m", "1.5h" in seconds. Error: kInvalidArgument.
Result<double> parse_duration(const std::string& text);

// An epilogue of the weights and groups whose names match a shell pattern; of all others where the pattern is empty.
struct WeightEpilogue {
  std::string pattern;
  Epilogue epilogue;
};
// "EPILOGUE", or "PATTERN=EPILOGUE". The last '=' separates the two: a name may hold ':' and '=', an epilogue holds
// none. Error: kInvalidArgument.
Result<WeightEpilogue> parse_weight_epilogue(const std::string& text);

// The options that the settings' texts stand for. Errors: kInvalidArgument.
Result<TuneOptions> completed_options(const TuneSettings& settings);

// Parses --memory: "1.5x" of each weight, "3GB" for the model. Error: kInvalidArgument.
Status take_memory(const std::string& text, TuneOptions& tuning);

struct TuneOutcome {
  TuneReport report;
  RankParts rank_parts;    // of the report's weights, with --tensor-parallel
  std::string cache_path;  // empty: no cache
  std::string compiler_version;
  std::string timing_policy;
  // `sparsmith bench` with these settings, without --operator, --epilogue, --tokens and --include.
  std::string command;
  std::string device_note;  // why choices are predicted, or not even verified: "no usable GPU (...)"
};

// The output files: the cache, and the file of --record.
std::vector<OutputFile> outputs_of(const TuneSettings& settings);

// `text` as one word of a shell's command line.
std::string shell_word(const std::string& text);

// Opens cache, compiler and device. Calls `run` once with the settings' options and these resources.
using RunWithTuner = std::function<Result<TuneReport>(const TuneOptions&, const TuneResources&)>;
Result<TuneOutcome> with_tuner(const TuneSettings& settings, bool quiet, const RunWithTuner& run);

// Opens file, cache, compiler and device, and tunes. Tensors that the selection leaves out are in the report's
// `skipped`.
Result<TuneOutcome> run_tuning(const TuneSettings& settings, bool quiet);

}  // namespace sparsmith::tools
