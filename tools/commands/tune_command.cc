// `sparsmith tune`: from a pruned model to a tuned file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "search/record/tuned_output.h"
#include "tools/command.h"
#include "tools/commands/tune_inputs.h"
#include "tools/commands/tune_json.h"
#include "tools/commands/tune_settings.h"
#include "tools/commands/tune_table.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/report/report_page.h"

namespace sparsmith::tools {
namespace {

struct Options {
  TuneSettings settings;
  std::string output;
  int units = 0;  // 0: tune
  bool again = false;
  bool json = false;
  bool full = false;
  std::string html;
  bool force = false;
};

// A file that a run writes: one, or one for each rank.
struct WrittenFile {
  std::string path;
  TunedContents contents;
};

// Views of `outcome`.
std::vector<WrittenFile> files_of(const Options& options, const TuneOutcome& outcome) {
  const TuneReport& report = outcome.report;
  if (report.weights.empty() || !report.memory.unmet.empty()) return {};
  const TunedProvenance provenance{.sparsmith_version = SPARSMITH_VERSION,
                                   .device_class = report.device.device_class(),
                                   .device_name = report.device.name,
                                   .driver_version = report.device.driver_version,
                                   .compiler_version = outcome.compiler_version,
                                   .timing_policy = options.settings.tuning.timing.name(),
                                   .source_file = options.settings.file};
  TunedContents contents = tuned_contents(report, provenance);
  const RankParts& parts = outcome.rank_parts;
  if (parts.ranks == 1) return {{options.output, std::move(contents)}};
  const bool all = options.settings.shard.empty() && options.settings.selection.only.empty();
  if (const auto incomplete = incomplete_splits(contents, parts); all && !incomplete.empty())
    log_warning("{} of {} splits have parts that were not tuned, and are in no file: {}{}", incomplete.size(),
                parts.sets.size(), incomplete.front(), incomplete.size() > 1 ? ", ..." : "");
  std::vector<WrittenFile> files;
  for (int rank = 0; rank < parts.ranks; ++rank)
    files.push_back({path_of_rank(options.output, rank), contents_of_rank(contents, parts, rank)});
  return files;
}

std::int64_t sum_of(const WrittenFile& file, const auto& figure) {
  std::int64_t sum = 0;
  for (const TunedWeight& weight : file.contents.weights) sum += std::invoke(figure, weight);
  return sum;
}

nlohmann::json ranks_json(const std::vector<WrittenFile>& files) {
  nlohmann::json list = nlohmann::json::array();
  for (const WrittenFile& file : files)
    list.push_back({{"rank", file.contents.rank},
                    {"file", file.path},
                    {"weights", file.contents.weights.size()},
                    {"gpu_bytes", sum_of(file, &TunedWeight::packed_bytes)},
                    {"dense_bytes", sum_of(file, &TunedWeight::dense_bytes)},
                    {"nonzeros", sum_of(file, &TunedWeight::nnz)}});
  return list;
}

std::string files_text(const std::vector<WrittenFile>& files) {
  if (files.size() == 1) return fmt::format("tuned file {}\n", files.front().path);
  Table table{.columns = {">rank", ">nonzeros", ">GPU bytes", ">dense", "tuned file"}};
  for (const WrittenFile& file : files)
    table.add(file.contents.rank, sum_of(file, &TunedWeight::nnz),
              human_bytes(sum_of(file, &TunedWeight::packed_bytes)),
              human_bytes(sum_of(file, &TunedWeight::dense_bytes)), file.path);
  return files.empty() ? "" : table.plain();
}

constexpr const char* kNothingTuned =
    "no weight was tuned, and no file is written: no weight has enough zeros; is the model pruned? (--min-sparsity)";

// The value of the evidence, in the last line.
std::string last_line(const TuneOutcome& outcome) {
  const TuneReport& report = outcome.report;
  if (report.interrupted) return "interrupted: run the same command again to go on from here";
  if (report.measured) {
    return fmt::format("choices are measured on {}{}", report.device.name,
                       report.complete       ? ""
                       : report.unjudged > 0 ? "; some candidates were not judged"
                                             : "; the budget cut the search short, a larger one may find better");
  }
  const std::string predicted = fmt::format("choices are predicted for {}, and ", report.device.device_class());
  if (report.unverified > 0) {
    return fmt::format(
        "{}{}not verified: {}; only a run on a GPU measures", predicted,
        report.unverified == report.pairs ? "" : fmt::format("{} of {} ", report.unverified, report.pairs),
        outcome.device_note);
  }
  if (report.devices == 0) return predicted + "were verified in an earlier run; only a run on a GPU measures";
  return fmt::format("{}{}{}verified in the emulator; only a run on a GPU measures", outcome.device_note,
                     outcome.device_note.empty() ? "" : ": ", predicted);
}

Result<ExitCode> list_units(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const TuneOptions tuning, completed_options(options.settings));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<NamedUnit> units, units_of(options.settings, tuning, options.units));
  nlohmann::json object = {{"units", nlohmann::json::array()}};
  Table table{.columns = {">unit", ">work", ">after", "weights"}};
  for (const NamedUnit& unit : units) {
    table.add(object["units"].size(), fmt::format("{:.2f}", unit.work), unit.after ? std::to_string(*unit.after) : "",
              fmt::format("{}", fmt::join(unit.weights, ", ")));
    object["units"].push_back({{"weights", unit.weights},
                               {"work", unit.work},
                               {"after", unit.after ? nlohmann::json(*unit.after) : nlohmann::json()}});
  }
  print_result(options.json, object, units.empty() ? fmt::format("{}\n", kNothingTuned) : table.plain());
  return units.empty() ? kFailed : kDone;
}

Result<ExitCode> run(const Options& options) {
  TuneSettings settings = options.settings;
  settings.tuning.use_choices = !options.again;
  std::vector<OutputFile> outputs = outputs_of(options.settings);
  const int ranks = settings.selection.ranks;
  for (int rank = 0; rank < ranks; ++rank)
    outputs.push_back(
        {"--output", ranks == 1 ? options.output : path_of_rank(options.output, rank), OutputKind::kTunedFile});
  outputs.push_back({"--html", options.html, OutputKind::kPage});
  SPARSMITH_RETURN_IF_ERROR(check_outputs({options.settings.file}, outputs, options.force));
  if (options.units > 0) return list_units(options);
  SPARSMITH_ASSIGN_OR_RETURN(const TuneOutcome outcome, run_tuning(settings, options.json));
  const std::string& unmet = outcome.report.memory.unmet;
  const std::vector<WrittenFile> files = files_of(options, outcome);
  for (const WrittenFile& file : files) SPARSMITH_RETURN_IF_ERROR(write_tuned_file(file.path, file.contents));
  nlohmann::json json = tuning_json(outcome);
  if (ranks > 1) json["ranks"] = ranks_json(files);
  SPARSMITH_RETURN_IF_ERROR(write_page(options.html, "Tuning", json_line(json), settings.file));
  if (options.json) {
    print_json(json);
  } else {
    const TuneReport& tuned = outcome.report;
    const std::string table = options.full ? choices_table(tuned) : folded_table(tuned);
    print("{}{}{}{}{}", model_summary(tuned), table.empty() ? "" : "\n", table, table.empty() ? "" : "\n",
          run_summary(tuned, options.full));
    if (tuned.training && !tuned.weights.empty()) print("{}", training_text(*tuned.training));
    print("{}", files_text(files));
    if (!outcome.cache_path.empty()) print("cache {}\n", outcome.cache_path);
    print("{}\n", tuned.weights.empty() ? kNothingTuned : last_line(outcome));
  }
  if (!unmet.empty()) return unsupported(unmet + "; no tuned file is written");
  return outcome.report.interrupted || outcome.report.weights.empty() ? kFailed : kDone;
}

}  // namespace

void add_tune_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  options->settings.tuning.tokens = {1, 8, 32};
  CLI::App* const command = app.add_subcommand("tune", "Find the best kernel for each weight and write a tuned file");
  add_tune_options(*command, options->settings);
  add_rank_options(*command, options->settings);
  command->add_option("-o,--output", options->output, "Tuned file to write")->required();
  command->add_option("--vs", options->settings.tuning.vendors, "Libraries to time beside dense (cublas)")
      ->delimiter(',')
      ->check(CLI::IsMember(kLibraries));
  command
      ->add_option(
          "--units", options->units,
          "Tune nothing; print about so many units of work for several machines: each unit's weights (--only), "
          "and the unit whose results it begins with (cache import)")
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--again", options->again, "Search again, even if the cache has a choice");
  command->add_flag("--full", options->full, "Print every weight, config, rejection and skipped tensor");
  command->add_flag("--json", options->json, "Print JSON");
  add_page_options(*command, options->html, options->force);
  set_action(*command, action, options, run);
}

}  // namespace sparsmith::tools
