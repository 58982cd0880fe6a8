// `sparsmith tune`: from a pruned model to a tuned file.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "search/tuned_output.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/tune_json.h"
#include "tools/tune_settings.h"
#include "tools/tune_table.h"
#include "tools/tuning_page.h"

namespace sparsmith::tools {
namespace {

struct Options {
  TuneSettings settings;
  std::string output;
  bool again = false;
  bool json = false;
  std::string html;
  bool force = false;
};

Status write_output(const Options& options, const TuneOutcome& outcome) {
  const TuneReport& report = outcome.report;
  if (report.weights.empty()) return {};
  TunedProvenance provenance;
  provenance.sparsmith_version = SPARSMITH_VERSION;
  provenance.device_class = report.device.device_class();
  provenance.device_name = report.device.name;
  provenance.driver_version = report.device.driver_version;
  provenance.compiler_version = outcome.compiler_version;
  provenance.timing_policy = options.settings.tuning.timing.name();
  provenance.source_file = options.settings.file;
  return write_tuned_file(options.output, tuned_contents(report, provenance));
}

// What the evidence is worth, in the last line.
std::string last_line(const TuneOutcome& outcome) {
  const TuneReport& report = outcome.report;
  if (report.interrupted) return "interrupted: run the same command again to go on from here";
  if (report.measured) {
    return fmt::format("choices are measured on {}{}", report.device.name,
                       report.complete       ? ""
                       : report.unjudged > 0 ? "; some candidates were not judged"
                                             : "; the budget cut the search short, a larger one may find better");
  }
  return fmt::format("{}{}choices are predicted for {}, and verified in the emulator; only a run on a GPU measures",
                     outcome.device_note, outcome.device_note.empty() ? "" : ": ", report.device.device_class());
}

int run(Options options) {
  options.settings.tuning.use_choices = !options.again;
  std::vector<OutputFile> outputs = outputs_of(options.settings);
  outputs.push_back({"--output", options.output, OutputKind::kTunedFile});
  outputs.push_back({"--html", options.html, OutputKind::kPage});
  const Status checked = check_outputs({options.settings.file}, outputs, options.force);
  if (!checked.ok()) return report(checked);
  const auto outcome = run_tuning(options.settings, options.json);
  if (!outcome.ok()) return report(outcome.status());
  const std::string& unmet = outcome->report.memory.unmet;
  const Status written = !unmet.empty() ? Status() : write_output(options, *outcome);
  if (!written.ok()) return report(written);
  if (!options.html.empty()) {
    const Status page = write_tuning_page(options.html, *outcome, options.settings.file);
    if (!page.ok()) return report(page);
  }
  if (options.json) {
    print_json(*outcome);
  } else {
    const TuneReport& tuned = outcome->report;
    const std::string table = choices_table(tuned);
    print("{}{}{}{}{}", table, table.empty() ? "" : "\n", model_summary(tuned), tuned.weights.empty() ? "" : "\n",
          run_summary(tuned));
    if (!tuned.weights.empty() && unmet.empty()) print("tuned file {}\n", options.output);
    if (!outcome->cache_path.empty()) print("cache {}\n", outcome->cache_path);
    print("{}\n", tuned.weights.empty() ? "no weight was tuned: no file is written" : last_line(*outcome));
  }
  if (!unmet.empty()) return report(unsupported(unmet + "; no tuned file is written"));
  return outcome->report.interrupted || outcome->report.weights.empty() ? kFailed : kDone;
}

}  // namespace

void add_tune_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("tune", "Find the best kernel for each weight and write a tuned file");
  add_tune_options(*command, options->settings);
  command->add_option("-o,--output", options->output, "The tuned file to write")->required();
  command
      ->add_option("--vs", options->settings.tuning.vendors,
                   "Measure libraries beside dense, which is cublas: cusparse")
      ->delimiter(',')
      ->check(CLI::IsMember(kLibraries));
  command->add_flag("--again", options->again, "Search again where the cache has a choice");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_option("--html", options->html, "Also write a page to this file");
  add_force_option(*command, options->force);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace sparsmith::tools
