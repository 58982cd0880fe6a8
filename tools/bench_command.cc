// `sparsmith bench`: our choices beside vendor libraries, in one run under one timing, all checked against fp64.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "base/file.h"
#include "base/log.h"
#include "search/bucket.h"
#include "search/roofline.h"
#include "tools/break_even.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/print.h"
#include "tools/report/report_input.h"
#include "tools/report/report_page.h"
#include "tools/text_table.h"
#include "tools/tune_json.h"
#include "tools/tune_settings.h"
#include "tools/tune_table.h"
#include "tools/tuning_page.h"

namespace sparsmith::tools {
namespace {

struct Options {
  TuneSettings settings;
  BreakEvenSettings break_even;
  bool markdown = false;
  bool json = false;
  std::string html;
  bool force = false;
};

constexpr const char* kDense = "dense";

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
    if (cases == 0) {
      text += fmt::format("geometric mean over {}: no case was measured\n", name);
    } else {
      text += fmt::format("geometric mean over {}: {:.3f}x in {} cases\n", name, std::exp(logarithms / cases), cases);
    }
  }
  return text;
}

std::string us_text(const Timing& timing) {
  return timing.median_us > 0 ? fmt::format("{:.2f}", timing.median_us) : "-";
}

// The choice as it was timed once more, and without each part.
void add_ablation(const BucketChoice& bucket, std::vector<std::string>& cells) {
  cells.push_back(bucket.ablation ? us_text(bucket.ablation->whole) : "-");
  for (const Ablation part : kAblations) {
    const bool timed = bucket.ablation && bucket.ablation->without.contains(part);
    cells.push_back(timed ? us_text(bucket.ablation->without.at(part)) : "-");
  }
}

TextTable bench_table(const TuneReport& report, const std::vector<std::string>& peers, bool ablation) {
  std::vector<TextTable::Column> columns = {
      {"weight"},   {"shape"},      {"zeros", true},       {"N", true},  {"choice"},       {"GPU bytes", true},
      {"us", true}, {"GB/s", true}, {"roofline us", true}, {"bound by"}, {"reached", true}};
  if (ablation) {
    columns.push_back({"full us", true});
    for (const Ablation part : kAblations) columns.push_back({fmt::format("{} us", ablation_name(part)), true});
  }
  columns.push_back({"error/bound", true});
  for (const std::string& name : peers) {
    columns.push_back({name + " us", true});
    columns.push_back({"ratio", true});
  }
  TextTable table(columns);
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      const double bandwidth = bucket.us() > 0 ? weight.bytes_moved(bucket) / bucket.us() * 1e6 : 0;
      const std::optional<RooflineBound> bound = roofline_bound(weight, bucket, report.device);
      std::vector<std::string> cells = {
          weight.name + operator_note(weight, bucket),
          fmt::format("{}x{}", weight.rows, weight.cols),
          fmt::format("{:.1f} %", 100 * weight.sparsity),
          std::to_string(bucket.tokens),
          short_config(bucket.candidate.config),
          gpu_bytes_text(weight, bucket),
          fmt::format("{:.2f}", bucket.us()),
          fmt::format("{:.0f}", bandwidth / 1e9),
          bound ? fmt::format("{:.2f}", bound->us) : "-",
          bound ? bound->by : "-",
          bound && bucket.us() > 0 ? fmt::format("{:.0f} %", 100 * bound->us / bucket.us()) : "-"};
      if (ablation) add_ablation(bucket, cells);
      cells.push_back(fmt::format("{:.3f}", bucket.verification.max_error_over_bound));
      for (const std::string& name : peers) {
        const double us = peer_us(bucket, name);
        cells.push_back(us <= 0 ? "-" : fmt::format("{:.2f}", us));
        cells.push_back(us <= 0 || bucket.us() <= 0 ? "-" : fmt::format("{:.2f}x", us / bucket.us()));
      }
      table.add(std::move(cells));
    }
  }
  return table;
}

// Why a library has no figure, once for each reason.
std::string missing_vendors(const TuneReport& report) {
  std::map<std::string, int> reasons;
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      for (const VendorTiming& vendor : bucket.vendors) {
        if (!vendor.supported) ++reasons[vendor.name + ": " + vendor.detail];
      }
    }
  }
  std::string text;
  for (const auto& [reason, count] : reasons) text += fmt::format("not measured in {} cases: {}\n", count, reason);
  return text;
}

// Which figures are not of the whole operator as a library computes it.
std::string epilogue_notes(const TuneReport& report) {
  std::map<std::string, int> without;
  for (const WeightResult& weight : report.weights)
    for (const BucketChoice& bucket : weight.buckets)
      for (const VendorTiming& vendor : bucket.vendors)
        if (vendor.supported && vendor.epilogue_left_out) ++without[vendor.name];
  std::string text;
  for (const auto& [name, count] : without) text += fmt::format("{}: in {} cases without the epilogue\n", name, count);
  return text;
}

// Why builds without a part have no figure, once for each reason.
std::string missing_ablations(const TuneReport& report) {
  std::map<std::string, int> reasons;
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      if (!bucket.ablation) continue;
      if (!bucket.ablation->reason.empty()) ++reasons[bucket.ablation->reason];
      if (!bucket.ablation->reason.empty()) continue;
      for (const auto& [part, reason] : bucket.ablation->missing)
        ++reasons[fmt::format("{}: {}", ablation_name(part), reason)];
    }
  }
  std::string text;
  for (const auto& [reason, count] : reasons) text += fmt::format("no ablation in {} cases: {}\n", count, reason);
  return text;
}

// How, and on what, everything above was timed.
std::string last_line(const TuneOutcome& outcome, const TimingPolicy& timing) {
  const TuneReport& result = outcome.report;
  return fmt::format("{} {}, {} weights, {} launches{}, memory {:.0f} GB/s {}\n",
                     result.measured ? "measured on" : "PREDICTED, not measured, for", result.device.name,
                     timing.cold_weights ? "cold" : "warm", timing.programmatic ? "programmatic" : "plain",
                     timing.layers > 0 ? fmt::format(", {} layers in a graph", timing.layers) : "",
                     result.device.memory_bandwidth / 1e9, result.measured ? "as measured" : "as assumed");
}

Status write_break_even_page(const std::string& path, const BreakEvenOutcome& outcome) {
  const std::string title = fmt::format("Break-even of {}, {}", outcome.spec.name(), outcome.pattern);
  ReportInputs inputs;
  SPARSMITH_RETURN_IF_ERROR(add_report_json(break_even_json(outcome), title, inputs));
  return write_file_atomically(path, html_of(report_page(title, inputs)));
}

int run_break_even(const Options& options) {
  const auto outcome = find_break_evens(options.settings, options.break_even, options.json);
  if (!outcome.ok()) return report(outcome.status());
  if (!options.html.empty()) {
    const Status page = write_break_even_page(options.html, *outcome);
    if (!page.ok()) return report(page);
  }
  if (options.json) {
    print("{}\n", break_even_json(*outcome));
    return outcome->interrupted ? kFailed : kDone;
  }
  const TextTable table = break_even_table(*outcome);
  print("{}\n{}, {}\n{}", options.markdown ? table.markdown() : table.plain(), outcome->spec.name(), outcome->pattern,
        last_line(outcome->tuning, options.settings.tuning.timing));
  return outcome->interrupted ? kFailed : kDone;
}

int run(Options options) {
  if (options.settings.file.empty() == options.break_even.shape.empty())
    return report(invalid_argument("bench takes either a file or --break-even MxK"));
  if (options.settings.ablation && options.settings.file.empty())
    return report(invalid_argument("--ablation takes a file: there are no kernels to take apart in a break-even"));
  std::vector<OutputFile> outputs = outputs_of(options.settings);
  outputs.push_back({"--html", options.html, OutputKind::kPage});
  const Status checked = check_outputs({options.settings.file}, outputs, options.force);
  if (!checked.ok()) return report(checked);
  if (!options.break_even.shape.empty()) return run_break_even(options);
  options.settings.tuning.compare = true;
  const auto outcome = run_tuning(options.settings, options.json);
  if (!outcome.ok()) return report(outcome.status());
  const TuneReport& result = outcome->report;
  if (!options.html.empty()) {
    const Status page = write_tuning_page(options.html, *outcome, options.settings.file);
    if (!page.ok()) return report(page);
  }
  if (options.json) {
    print_json(*outcome);
  } else {
    std::vector<std::string> peers = {kDense};
    for (const std::string& name : options.settings.tuning.vendors)
      if (name != kDenseLibrary) peers.push_back(name);
    const TextTable table = bench_table(result, peers, options.settings.ablation);
    print("{}\n{}{}{}{}", options.markdown ? table.markdown() : table.plain(), geometric_means(result, peers),
          epilogue_notes(result), missing_vendors(result), missing_ablations(result));
    for (const TuneReport::Skipped& tensor : result.skipped) print("skipped {}: {}\n", tensor.name, tensor.reason);
    print("{}", last_line(*outcome, options.settings.tuning.timing));
  }
  return result.interrupted || result.weights.empty() ? kFailed : kDone;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<Options>();
  options->settings.tuning.vendors = {"cusparse"};
  CLI::App* const command = app.add_subcommand("bench", "Time our kernels beside vendor libraries in one run");
  add_tune_options(*command, options->settings);
  command->get_option("file")->required(false);
  add_break_even_options(*command, options->break_even);
  command
      ->add_option("--vs", options->settings.tuning.vendors,
                   "Libraries measured beside dense, which is cublas: cusparse")
      ->delimiter(',')
      ->check(CLI::IsMember(kLibraries))
      ->capture_default_str();
  command
      ->add_option("--layers", options->settings.tuning.timing.layers,
                   "Time a stack of so many layers in one CUDA graph; default: as many launches as timing takes")
      ->check(CLI::Range(1, 2000));
  command->add_flag("--ablation", options->settings.ablation,
                    "Time each chosen kernel once more, beside builds of it without decoding, without multiplying, and "
                    "that only copy the weight");
  command->add_flag("--markdown", options->markdown, "Print the table as Markdown");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_option("--html", options->html, "Also write a page to this file");
  add_force_option(*command, options->force);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace sparsmith::tools
