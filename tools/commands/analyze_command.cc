// `sparsmith analyze`: what the zeros of a model's weights look like.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/split.h"
#include "matrix/model_analysis.h"
#include "tools/command.h"
#include "tools/commands/tune_table.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/report/analysis_table.h"
#include "tools/report/file_results.h"
#include "tools/report/report_page.h"

namespace sparsmith::tools {
namespace {

struct Options {
  std::string file;
  std::string html;
  bool force = false;
  bool json = false;
  bool full = false;
  bool structures = false;
  bool histogram = false;
  std::uint64_t seed = 0;
  std::int64_t max_memory = 0;
  SelectionOptions selection;
};

std::string json_of(const ModelFile& file, const std::vector<AnalyzedWeight>& weights) {
  std::string text = fmt::format("{{\"schema_version\":{},\"weights\":[", kJsonVersion);
  const char* separator = "\n";
  for (const AnalyzedWeight& weight : weights) {
    text += separator + to_json(weight.statistics, file.tensors()[weight.index].name);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

Result<ExitCode> run(const Options& options) {
  SPARSMITH_RETURN_IF_ERROR(
      check_outputs({options.file}, {{"--html", options.html, OutputKind::kPage}}, options.force));
  SPARSMITH_ASSIGN_OR_RETURN(const ModelFile file,
                             ModelFile::open(options.file, {.seed = options.seed, .max_memory = options.max_memory}));
  SPARSMITH_ASSIGN_OR_RETURN(const ModelAnalysis analysis, analyzed(file, options.selection));
  std::vector<std::pair<std::string, std::string>> skipped;
  for (const SkippedTensor& tensor : analysis.skipped)
    skipped.emplace_back(fmt::format("{} ({})", tensor.name, tensor.description), tensor.reason);
  const std::string lines = skipped_text(skipped, options.full);
  for (const std::string_view line : split(lines, "\n"))
    if (!line.empty()) log_info("{}", line);
  if (!options.html.empty()) {
    ReportInputs inputs;
    SPARSMITH_ASSIGN_OR_RETURN(inputs.analyses.emplace_back(), layer_analysis(file, analysis));
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically(options.html, html_of(report_page("", inputs))));
  }
  if (options.json) {
    print("{}", json_of(file, analysis.weights));
    return kDone;
  }
  print("{}", analysis_table(file, analysis.weights));
  const bool single = analysis.weights.size() == 1;
  for (const AnalyzedWeight& weight : analysis.weights) {
    const std::string& name = file.tensors()[weight.index].name;
    if (options.structures || single) print("\n{}", structure_table(name, weight.statistics));
    if (options.histogram || single) print("\n{}", row_length_histogram(name, weight.statistics));
  }
  return kDone;
}

}  // namespace

void add_analyze_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("analyze", "Show the sparsity of each weight of a model");
  command
      ->add_option("file", options->file,
                   "The model: a Hugging Face folder, .safetensors (dense, or of compressed-tensors), the .json index "
                   "of shards, .smtx, "
                   ".mtx, .npz or .npy")
      ->required();
  command->add_flag("--full", options->full, "List every skipped tensor");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--structures", options->structures,
                    "Print, for each weight, which blocks and which N of M columns hold how many of its nonzeros");
  command->add_flag("--histogram", options->histogram, "Print a histogram of row lengths for each weight");
  add_page_options(*command, options->html, options->force);
  add_selection_options(*command, options->selection);
  add_shown(*command, "--seed", options->seed, "Seed of the values, for files that hold positions only (.smtx)");
  add_max_memory_option(*command, options->max_memory);
  set_action(*command, action, options, run);
}

}  // namespace sparsmith::tools
