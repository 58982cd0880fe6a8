// `sparsmith report`: any number of results as one page.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "matrix/model_analysis.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/report/model_layers.h"
#include "tools/report/report_input.h"
#include "tools/report/report_page.h"
#include "tools/report/report_table.h"
#include "tools/report/tuned_results.h"

namespace sparsmith::tools {
namespace {

constexpr unsigned kMaxThreads = 8;  // more do not read faster

struct Options {
  std::vector<std::string> files;
  std::string output;
  std::string title = "sparsmith report";
  std::uint64_t seed = 0;
  std::int64_t max_memory = 0;
  bool force = false;
  SelectionOptions selection;
  bool trusted = false;
};

Status add_weights(const std::string& path, const Options& options, ReportInputs& inputs) {
  SPARSMITH_ASSIGN_OR_RETURN(const ModelFile file,
                             ModelFile::open(path, {.seed = options.seed, .max_memory = options.max_memory}));
  const auto threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads));
  SPARSMITH_ASSIGN_OR_RETURN(const ModelAnalysis analysis, analyze_model(file, options.selection, threads));
  SPARSMITH_ASSIGN_OR_RETURN(LayerAnalysis layers, layer_analysis(file, analysis));
  inputs.analyses.push_back(std::move(layers));
  return {};
}

// The index of a model's shards is JSON too.
bool is_shard_index(const std::string& path) { return path.ends_with(".safetensors.index.json"); }

Status add_file(const std::string& path, const Options& options, ReportInputs& inputs) {
  const bool json = (path.ends_with(".json") || path.ends_with(".jsonl")) && !is_shard_index(path);
  if (json) {
    SPARSMITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
    return add_report_json(file.text(), path, inputs);
  }
  SPARSMITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (!says_tuned(file.bytes())) return add_weights(path, options, inputs);
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile tuned, TunedFile::open(path, {.trusted = options.trusted}));
  inputs.results.push_back(tuned_results(tuned.contents(), path));
  return {};
}

int run(const Options& options) {
  const Status checked = check_outputs(options.files, {{"--output", options.output, OutputKind::kPage}}, options.force);
  if (!checked.ok()) return report(checked);
  ReportInputs inputs;
  for (const std::string& file : options.files) {
    const Status added = add_file(file, options, inputs);
    if (!added.ok()) return report(added);
  }
  const std::string html = html_of(report_page(options.title, inputs));
  const Status written = write_file_atomically(options.output, html);
  if (!written.ok()) return report(written);
  print("{}{}: {} KiB of {} files\n", report_table(inputs), options.output, html.size() / 1024, options.files.size());
  return kDone;
}

}  // namespace

void add_report_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("report", "Make one page of weights, results and histories");
  command
      ->add_option(
          "files", options->files,
          "Weights, tuned files, and JSON (.json, .jsonl) of analyze, tune, bench, bench/cells.py or a history")
      ->required();
  command->add_option("-o,--output", options->output, "The page to write")->required();
  command->add_flag("--trusted", options->trusted, "Of tuned files of your own: do not check their packed arrays");
  add_force_option(*command, options->force);
  command->add_option("--title", options->title, "Of the page")->capture_default_str();
  command->add_option("--include", options->selection.include, "Of weights files, as analyze has it; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--exclude", options->selection.exclude, "Of weights files, as analyze has it; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--min-sparsity", options->selection.min_sparsity,
                   "Of weights files: take those with a larger share of zeros")
      ->capture_default_str();
  add_max_memory_option(*command, options->max_memory);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace sparsmith::tools
