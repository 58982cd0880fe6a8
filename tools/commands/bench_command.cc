// `sparsmith bench`: our choices beside vendor libraries, in one run under one timing, all checked against fp64.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "runtime/tuned_file.h"
#include "search/choice/bucket.h"
#include "search/explain/roofline.h"
#include "search/tuned_timing.h"
#include "tools/command.h"
#include "tools/commands/break_even.h"
#include "tools/commands/tune_json.h"
#include "tools/commands/tune_settings.h"
#include "tools/commands/tune_table.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/report/file_results.h"
#include "tools/report/layers.h"
#include "tools/report/report_page.h"

namespace sparsmith::tools {
namespace {

struct Options {
  TuneSettings settings;
  BreakEvenSettings break_even;
  bool markdown = false;
  bool json = false;
  std::string html;
  bool force = false;
  bool trusted = false;
  const CLI::App* command = nullptr;
};

constexpr const char* kDense = "dense";
// The options that mean something where the kernels of a tuned file are timed.
const std::vector<std::string> kTunedFileOptions = {
    "file",   "--tokens", "--operator", "--include",  "--exclude",    "--device",
    "--vs",   "--layers", "--cache",    "--no-cache", "--threads",    "--markdown",
    "--json", "--html",   "--force",    "--trusted",  "--max-memory", "--help"};

// What something else takes beside the choice; 0: it was not measured.
double peer_us(const BucketChoice& bucket, const std::string& name) {
  if (name == kDense) return bucket.dense_us;
  const auto found = std::ranges::find(bucket.vendors, name, &VendorTiming::name);
  return found == bucket.vendors.end() || !found->supported ? 0 : found->timing.median_us;
}

// The peer's time over ours, over every case that it supports.
std::string geometric_means(const TuneReport& report, const std::vector<std::string>& peers) {
  std::string text;
  for (const std::string& name : peers) {
    double logarithms = 0;
    int cases = 0;
    for (const WeightResult& weight : report.weights) {
      for (const BucketChoice& bucket : weight.buckets) {
        const double us = peer_us(bucket, name);
        if (us <= 0 || bucket.us() <= 0) continue;
        logarithms += std::log(us / bucket.us());
        ++cases;
      }
    }
    text += fmt::format(
        "geometric mean over {}: {}\n", name,
        cases == 0 ? "no case was measured" : fmt::format("{:.3f}x in {} cases", std::exp(logarithms / cases), cases));
  }
  return text;
}

Table bench_table(const TuneReport& report, const std::vector<std::string>& peers, bool ablation) {
  std::vector<std::string> columns = {">GB/s", ">roofline us", "bound by", ">reached"};
  if (ablation) {
    columns.emplace_back(">full us");
    for (const Ablation part : kAblations) columns.push_back(fmt::format(">{} us", ablation_name(part)));
  }
  columns.emplace_back(">error/bound");
  for (const std::string& name : peers) columns.insert(columns.end(), {">" + name + " us", ">ratio"});
  return choice_table(report, columns, [&](const WeightResult& weight, const BucketChoice& bucket) {
    const double us = bucket.us();
    const std::optional<RooflineBound> bound = roofline_bound(weight, bucket, report.device);
    std::vector<std::string> cells = {us > 0 ? fmt::format("{:.0f}", weight.bytes_moved(bucket) / us / 1e3) : "-",
                                      bound ? fmt::format("{:.2f}", bound->us) : "-", bound ? bound->by : "-",
                                      bound && us > 0 ? percent(bound->us / us, 0) : "-"};
    if (ablation) {  // the choice as it was timed once more, and without each part
      cells.push_back(us_text(bucket.ablation ? bucket.ablation->whole.median_us : 0));
      for (const Ablation part : kAblations) {
        const bool timed = bucket.ablation && bucket.ablation->without.contains(part);
        cells.push_back(us_text(timed ? bucket.ablation->without.at(part).median_us : 0));
      }
    }
    cells.push_back(fmt::format("{:.3f}", bucket.verification.max_error_over_bound));
    for (const std::string& name : peers)
      cells.insert(cells.end(), {us_text(peer_us(bucket, name)), ratio_text(peer_us(bucket, name), us)});
    return cells;
  });
}

using Tally = std::map<std::string, int>;

// A line for each text with the number of its cases. `count` adds those of one choice.
std::string tallied(const TuneReport& report, const std::function<void(const BucketChoice&, Tally&)>& count,
                    const char* line) {
  Tally tally;
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets) count(bucket, tally);
  }
  std::string text;
  for (const auto& [what, cases] : tally) text += fmt::format(fmt::runtime(line), cases, what);
  return text;
}

// Why a library or a build without a part has no figure, and which figures are not of the whole operator.
std::string notes(const TuneReport& report) {
  const auto without_epilogue = [](const BucketChoice& bucket, Tally& tally) {
    for (const VendorTiming& vendor : bucket.vendors)
      if (vendor.supported && vendor.epilogue_left_out) ++tally[vendor.name];
  };
  const auto missing_vendors = [](const BucketChoice& bucket, Tally& tally) {
    for (const VendorTiming& vendor : bucket.vendors)
      if (!vendor.supported) ++tally[vendor.name + ": " + vendor.detail];
  };
  const auto missing_ablations = [](const BucketChoice& bucket, Tally& tally) {
    if (!bucket.ablation) return;
    if (!bucket.ablation->reason.empty()) {
      ++tally[bucket.ablation->reason];
      return;
    }
    for (const auto& [part, reason] : bucket.ablation->missing)
      ++tally[fmt::format("{}: {}", ablation_name(part), reason)];
  };
  return tallied(report, without_epilogue, "{1}: in {0} cases without the epilogue\n") +
         tallied(report, missing_vendors, "not measured in {} cases: {}\n") +
         tallied(report, missing_ablations, "no ablation in {} cases: {}\n");
}

// How, and on what, everything above was timed.
std::string last_line(const TuneOutcome& outcome, const TimingPolicy& timing) {
  const TuneReport& result = outcome.report;
  if (result.device.is_emulator) return "verified in the emulator, which measures no time\n";
  return fmt::format("{} {}, {} weights, {} launches{}, memory {:.0f} GB/s {}\n",
                     result.measured ? "measured on" : "PREDICTED, not measured, for", result.device.name,
                     timing.cold_weights ? "cold" : "warm", timing.programmatic ? "programmatic" : "plain",
                     timing.layers > 0 ? fmt::format(", {} layers in a graph", timing.layers) : "",
                     result.device.memory_bandwidth / 1e9, result.measured ? "as measured" : "as assumed") +
         (result.unverified > 0 ? fmt::format("not verified: {}\n", outcome.device_note) : "");
}

Result<ExitCode> run_break_even(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const BreakEvenOutcome outcome,
                             find_break_evens(options.settings, options.break_even, options.json));
  const nlohmann::json json = break_even_json(outcome);
  const std::string weights = fmt::format("{}, {}", outcome.spec.name(), outcome.pattern);
  SPARSMITH_RETURN_IF_ERROR(write_page(options.html, "Break-even", json_line(json), weights));
  const Table table = break_even_table(outcome);
  print_result(options.json, json,
               fmt::format("{}\n{}, {}\n{}", options.markdown ? table.markdown() : table.plain(), outcome.spec.name(),
                           outcome.pattern, last_line(outcome.tuning, options.settings.tuning.timing)));
  return outcome.interrupted ? kFailed : kDone;
}

// Times the kernels that a tuned file holds.
Result<TuneOutcome> time_tuned_file(const Options& options) {
  for (const CLI::Option* const each : options.command->get_options()) {
    const std::string name = each->get_name();
    if (each->count() > 0 && std::ranges::find(kTunedFileOptions, name) == kTunedFileOptions.end())
      return invalid_argument(fmt::format("{} is a tuned file: its kernels are timed as they are, without {}",
                                          options.settings.file, name));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const TunedFile file,
                             TunedFile::open(options.settings.file, {.trusted = options.trusted}));
  TunedTimingOptions which;
  which.selection = options.settings.selection;
  which.max_memory = options.settings.max_memory;
  if (options.command->count("--tokens") > 0) which.tokens = options.settings.tuning.tokens;
  if (options.command->count("--operator") > 0) {
    for (const std::string& kind : options.settings.kinds) which.kinds.push_back(*operator_kind_of_name(kind));
  }
  TuneSettings settings = options.settings;
  if (settings.devices.empty()) settings.devices = {"cuda:0"};  // the emulator is never a silent substitute
  auto outcome = with_tuner(settings, options.json, [&](const TuneOptions& tuning, const TuneResources& resources) {
    return time_tuned(file.contents(), which, tuning, resources);
  });
  if (outcome.status().code() != StatusCode::kNoDevice) return outcome;
  return no_device(fmt::format("no usable GPU: {}; --device emulator verifies the choices on the CPU, untimed",
                               outcome.status().message()));
}

Result<TuneOutcome> time_model(const Options& options) {
  TuneSettings settings = options.settings;
  settings.tuning.compare = true;
  return run_tuning(settings, options.json);
}

Result<bool> is_tuned_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return false;
  SPARSMITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  return says_tuned(file.bytes());
}

Result<ExitCode> run(const Options& options) {
  if (options.settings.file.empty() == options.break_even.shape.empty())
    return invalid_argument("bench takes either a file or --break-even MxK");
  if (options.settings.ablation && options.settings.file.empty())
    return invalid_argument("--ablation takes a file: there are no kernels to take apart in a break-even");
  std::vector<OutputFile> outputs = outputs_of(options.settings);
  outputs.push_back({"--html", options.html, OutputKind::kPage});
  SPARSMITH_RETURN_IF_ERROR(check_outputs({options.settings.file}, outputs, options.force));
  if (!options.break_even.shape.empty()) return run_break_even(options);
  SPARSMITH_ASSIGN_OR_RETURN(const bool tuned, is_tuned_file(options.settings.file));
  SPARSMITH_ASSIGN_OR_RETURN(const TuneOutcome outcome, tuned ? time_tuned_file(options) : time_model(options));
  const TuneReport& result = outcome.report;
  const nlohmann::json json = tuning_json(outcome);
  SPARSMITH_RETURN_IF_ERROR(write_page(options.html, "Benchmark", json_line(json), options.settings.file));
  if (options.json) {
    print_json(json);
  } else {
    std::vector<std::string> peers = {kDense};
    for (const std::string& name : options.settings.tuning.vendors)
      if (name != kDenseLibrary) peers.push_back(name);
    const Table table = bench_table(result, peers, options.settings.ablation);
    print("{}\n{}{}", options.markdown ? table.markdown() : table.plain(), geometric_means(result, peers),
          notes(result));
    for (const TuneReport::Skipped& tensor : result.skipped)
      print("{} {}: {}\n", tuned ? "FAILED" : "skipped", tensor.name, tensor.reason);
    print("{}", last_line(outcome, options.settings.tuning.timing));
  }
  const bool failed = tuned && !result.skipped.empty();
  return result.interrupted || result.weights.empty() || failed ? kFailed : kDone;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  options->settings.tuning.vendors = {"cusparse"};
  CLI::App* const command = app.add_subcommand("bench", "Time kernels of a model or a tuned file beside libraries");
  options->command = command;
  add_tune_options(*command, options->settings);
  command->get_option("file")->required(false)->description(
      "A model, as for tune; or a tuned file, whose kernels are timed as they are");
  command->add_flag("--trusted", options->trusted,
                    "Do not check the packed arrays of a tuned file that you made yourself");
  add_break_even_options(*command, options->break_even);
  add_shown(*command, "--vs", options->settings.tuning.vendors, "Libraries to time beside dense (cublas)")
      ->delimiter(',')
      ->check(CLI::IsMember(kLibraries));
  command
      ->add_option("--layers", options->settings.tuning.timing.layers,
                   "Time a stack of this many layers in one CUDA graph; default: as many launches as the timing needs")
      ->check(CLI::Range(1, 2000));
  command->add_flag("--ablation", options->settings.ablation,
                    "Also time builds of each chosen kernel without decoding, without multiplying, and with the copy "
                    "of the weight alone");
  command->add_flag("--markdown", options->markdown, "Print the table as Markdown");
  command->add_flag("--json", options->json, "Print JSON");
  add_page_options(*command, options->html, options->force);
  set_action(*command, action, options, run);
}

}  // namespace sparsmith::tools
