// `sparsmith analyze`: what the zeros of a model's weights look like.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "matrix/model_analysis.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/report/analysis_table.h"
#include "tools/report/model_layers.h"
#include "tools/report/report_page.h"

namespace sparsmith::tools {
namespace {

constexpr unsigned kMaxThreads = 8;  // more do not read faster

struct Options {
  std::string file;
  std::string html;
  bool force = false;
  bool json = false;
  bool histogram = false;
  std::uint64_t seed = 0;
  std::int64_t max_memory = 0;
  SelectionOptions selection;
};

std::string json_of(const ModelFile& file, const std::vector<AnalyzedWeight>& weights) {
  std::string text = "{\"weights\":[";
  const char* separator = "\n";
  for (const AnalyzedWeight& weight : weights) {
    text += separator + to_json(weight.statistics, file.tensors()[weight.index].name);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

Status write_page(const std::string& path, const ModelFile& file, const ModelAnalysis& analysis) {
  ReportInputs inputs;
  SPARSMITH_ASSIGN_OR_RETURN(inputs.analyses.emplace_back(), layer_analysis(file, analysis));
  return write_file_atomically(path, html_of(report_page("Sparsity analysis", inputs)));
}

int run(const Options& options) {
  const Status checked = check_outputs({options.file}, {{"--html", options.html, OutputKind::kPage}}, options.force);
  if (!checked.ok()) return report(checked);
  const Result<ModelFile> file =
      ModelFile::open(options.file, {.seed = options.seed, .max_memory = options.max_memory});
  if (!file.ok()) return report(file.status());
  const auto threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads));
  const Result<ModelAnalysis> analysis = analyze_model(*file, options.selection, threads);
  if (!analysis.ok()) return report(analysis.status());
  for (const SkippedTensor& tensor : analysis->skipped)
    log_info("skipped {} ({}): {}", tensor.name, tensor.description, tensor.reason);
  if (!options.html.empty()) {
    const Status written = write_page(options.html, *file, *analysis);
    if (!written.ok()) return report(written);
  }
  if (options.json) {
    print("{}", json_of(*file, analysis->weights));
    return kDone;
  }
  print("{}", analysis_table(*file, analysis->weights));
  if (options.histogram || analysis->weights.size() == 1) {
    for (const AnalyzedWeight& weight : analysis->weights) {
      print("\n{}", row_length_histogram(file->tensors()[weight.index].name, weight.statistics));
    }
  }
  return kDone;
}

}  // namespace

void add_analyze_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("analyze", "Show the sparsity of each weight of a model file");
  command
      ->add_option("file", options->file, "safetensors (or the .json index of its shards), .smtx, .mtx, .npz or .npy")
      ->required();
  command->add_flag("--json", options->json, "Print {\"weights\":[...]}, one object a weight");
  command->add_flag("--histogram", options->histogram,
                    "Print the row lengths of every weight, not only of a single one");
  command->add_option("--html", options->html, "Also write a page to this file");
  add_force_option(*command, options->force);
  command
      ->add_option("--include", options->selection.include,
                   "Take only weights whose names match a shell pattern; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--exclude", options->selection.exclude, "Leave out weights whose names match; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--min-sparsity", options->selection.min_sparsity, "Take weights with a larger share of zeros")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the values of patterns that have none")->capture_default_str();
  add_max_memory_option(*command, options->max_memory);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace sparsmith::tools
