#include "tools/commands/break_even.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/log.h"
#include "tools/command.h"
#include "tools/commands/tune_table.h"
#include "tools/interrupt.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

Result<SynthesisSpec> drawn_weight(const TuneSettings& tuning, const BreakEvenSettings& settings) {
  SynthesisSpec spec;
  SPARSMITH_RETURN_IF_ERROR(parse_shape(settings.shape, spec));
  SPARSMITH_ASSIGN_OR_RETURN(spec.pattern, parse_synthesis_pattern(settings.pattern));
  spec.seed = tuning.value_seed;
  return spec;
}

const BreakEvenProbe* probe_at(const BreakEven& found, std::optional<double> sparsity) {
  if (!sparsity) return nullptr;
  return &*std::ranges::find(found.probes, *sparsity, &BreakEvenProbe::sparsity);
}

std::string where_text(const BreakEven& found) {
  std::string text = "above " + percent(found.probes.back().sparsity);
  if (found.sparse_at) text = (found.dense_at ? "" : "at most ") + percent(*found.sparse_at);
  return found.changes_once ? text : text + ", and lower in parts";
}

json json_of(const BreakEvenProbe& probe) {
  return {{"sparsity", probe.sparsity}, {"sparse", probe.sparse},    {"choice", probe.choice}, {"us", probe.us},
          {"dense_us", probe.dense_us}, {"evidence", probe.evidence}};
}

json json_of(const BreakEvenOutcome& outcome, const BreakEvenOutcome::Case& one) {
  json object = {{"M", outcome.spec.rows},
                 {"K", outcome.spec.cols},
                 {"operator", outcome.spec.name()},
                 {"pattern", outcome.pattern},
                 {"seed", outcome.seed},
                 {"tokens", one.tokens},
                 {"tolerance", outcome.range.tolerance},
                 {"changes_once", one.found.changes_once}};
  object["dense_at"] = one.found.dense_at ? json(*one.found.dense_at) : json();
  object["sparse_at"] = one.found.sparse_at ? json(*one.found.sparse_at) : json();
  for (const BreakEvenProbe& probe : one.found.probes) object["probes"].push_back(json_of(probe));
  return object;
}

}  // namespace

void add_break_even_options(CLI::App& command, BreakEvenSettings& settings) {
  command.add_option("--break-even", settings.shape,
                     "MxK, in place of a file: find for each N the sparsity from which on sparse kernels beat dense, "
                     "on drawn weights of this shape");
  add_shown(command, "--pattern", settings.pattern,
            "With --break-even: distribution of the zeros: uniform, lognormal:S, power:A, block:B, block:RxC, 2:4 or "
            "2:4-transposable; "
            "+uniform:P behind it scatters a share P of elements");
  add_shown(command, "--from", settings.range.low, "With --break-even: lowest sparsity");
  add_shown(command, "--to", settings.range.high, "With --break-even: highest sparsity");
  add_shown(command, "--points", settings.range.points,
            "With --break-even: number of sparsities to measure before the bisection");
  add_shown(command, "--tolerance", settings.range.tolerance,
            "With --break-even: width at which the bisection ends, as a share of the elements");
}

Result<BreakEvenOutcome> find_break_evens(const TuneSettings& tuning, const BreakEvenSettings& settings, bool quiet) {
  SPARSMITH_ASSIGN_OR_RETURN(SynthesisSpec weight, drawn_weight(tuning, settings));
  for (const std::string& text : tuning.epilogues)
    if (text.find('=') != std::string::npos)
      return invalid_argument(fmt::format("--epilogue {}: --break-even draws the weights, which have no names", text));
  BreakEvenOutcome outcome;
  outcome.pattern = settings.pattern;
  outcome.seed = weight.seed;
  outcome.range = settings.range;
  const RunWithTuner run = [&](const TuneOptions& options, const TuneResources& resources) -> Result<TuneReport> {
    if (options.kinds.size() > 1) return invalid_argument("--break-even measures one operator");
    weight.data_type = options.type.value_or(DataType::kFloat16);
    outcome.spec = options.specs_of(weight.rows, weight.cols, 0, weight.data_type, options.epilogue).front();
    if (!outcome.spec.multiplies_weight())
      return invalid_argument("--break-even compares with dense, and nothing dense computes sddmm");
    TuneReport last;
    const TuneWeights tune_drawn = [&](std::span<const WeightInput> weights, const TuneOptions& alone) {
      auto report = tune(weights, alone, resources);
      if (report.ok()) last = *report;
      return report;
    };
    for (const std::int64_t tokens : options.tokens) {
      auto found = break_even_of_drawn(weight, tokens, options, settings.range, tune_drawn);
      outcome.interrupted = !found.ok() && interrupted() && !outcome.cases.empty();
      if (outcome.interrupted) {
        log_error("interrupted: nothing is said of N = {} and above", tokens);
        break;
      }
      if (!found.ok()) return found.status();
      log_info("N = {}: break-even {}", tokens, where_text(*found));
      outcome.cases.push_back({tokens, *std::move(found)});
    }
    return last;
  };
  SPARSMITH_ASSIGN_OR_RETURN(outcome.tuning, with_tuner(tuning, quiet, run));
  return outcome;
}

Table break_even_table(const BreakEvenOutcome& outcome) {
  Table table{.columns = {">N", ">break-even", ">dense at", "sparse from", ">us", ">dense us", ">probes", "evidence"}};
  for (const BreakEvenOutcome::Case& one : outcome.cases) {
    const BreakEvenProbe* const sparse = probe_at(one.found, one.found.sparse_at);
    const BreakEvenProbe& shown = sparse != nullptr ? *sparse : one.found.probes.back();
    table.add(one.tokens, where_text(one.found), one.found.dense_at ? percent(*one.found.dense_at) : "nowhere",
              sparse != nullptr ? short_config(sparse->choice) : "nowhere", fmt::format("{:.2f}", shown.us),
              fmt::format("{:.2f}", shown.dense_us), one.found.probes.size(), shown.evidence);
  }
  return table;
}

nlohmann::json break_even_json(const BreakEvenOutcome& outcome) {
  const DeviceProperties& device = outcome.tuning.report.device;
  json object = {{"device",
                  {{"name", device.name},
                   {"class", device.device_class()},
                   {"memory_bandwidth", device.memory_bandwidth},
                   {"driver", device.driver_version}}},
                 {"version", SPARSMITH_VERSION},
                 {"nvrtc", outcome.tuning.compiler_version},
                 {"timing_policy", outcome.tuning.timing_policy},
                 {"measured", outcome.tuning.report.measured},
                 {"break_even", json::array()}};
  for (const BreakEvenOutcome::Case& one : outcome.cases) object["break_even"].push_back(json_of(outcome, one));
  return object;
}

}  // namespace sparsmith::tools
