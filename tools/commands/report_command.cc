// `sparsmith report`: any number of results as one page.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/split.h"
#include "matrix/model_analysis.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/report/file_results.h"
#include "tools/report/report_input.h"
#include "tools/report/report_page.h"
#include "tools/report/table.h"

namespace sparsmith::tools {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string output;
  std::string title;
  std::uint64_t seed = 0;
  std::int64_t max_memory = 0;
  bool force = false;
  SelectionOptions selection;
  bool trusted = false;
  bool json = false;
};

Status add_weights(const std::string& path, const Options& options, ReportInputs& inputs) {
  SPARSMITH_ASSIGN_OR_RETURN(const ModelFile file,
                             ModelFile::open(path, {.seed = options.seed, .max_memory = options.max_memory}));
  SPARSMITH_ASSIGN_OR_RETURN(const ModelAnalysis analysis, analyzed(file, options.selection));
  SPARSMITH_ASSIGN_OR_RETURN(inputs.analyses.emplace_back(), layer_analysis(file, analysis));
  return {};
}

// The index of a model's shards is JSON too.
bool is_shard_index(const std::string& path) { return path.ends_with(".safetensors.index.json"); }

Status add_file(const std::string& path, const Options& options, ReportInputs& inputs) {
  SPARSMITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if ((path.ends_with(".json") || path.ends_with(".jsonl")) && !is_shard_index(path))
    return add_report_json(file.text(), path, inputs);
  if (!says_tuned(file.bytes())) return add_weights(path, options, inputs);
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile tuned, TunedFile::open(path, {.trusted = options.trusted}));
  inputs.results.push_back(tuned_results(tuned.contents(), path));
  return {};
}

Result<ExitCode> run(const Options& options) {
  SPARSMITH_RETURN_IF_ERROR(
      check_outputs(options.files, {{"--output", options.output, OutputKind::kPage}}, options.force));
  ReportInputs inputs;
  for (const std::string& file : options.files) {
    SPARSMITH_RETURN_IF_ERROR(add_file(file, options, inputs));
  }
  const std::string html = html_of(report_page(options.title, inputs));
  SPARSMITH_RETURN_IF_ERROR(write_file_atomically(options.output, html));
  const std::string summary = report_table(inputs);
  print_result(options.json,
               nlohmann::json{{"page", options.output}, {"bytes", html.size()}, {"summary", split(summary, "\n")}},
               fmt::format("{}{}: {} of {} files\n", summary, options.output, human_bytes(std::ssize(html)),
                           options.files.size()));
  return kDone;
}

}  // namespace

void add_report_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("report", "Make one HTML page of weights, results and histories");
  command
      ->add_option(
          "files", options->files,
          "Models, tuned files, and JSON (.json, .jsonl) of analyze, tune, bench, perf history or space simulate")
      ->required();
  command->add_option("-o,--output", options->output, "Page to write")->required();
  command->add_flag("--trusted", options->trusted,
                    "Do not check the packed arrays of tuned files that you made yourself");
  command->add_flag("--json", options->json, "Print JSON");
  add_force_option(*command, options->force);
  command->add_option("--title", options->title, "Title of the page; default: names the results");
  add_selection_options(*command, options->selection);  // of weights files
  add_max_memory_option(*command, options->max_memory);
  set_action(*command, action, options, run);
}

}  // namespace sparsmith::tools
