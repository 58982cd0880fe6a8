#include "tools/report/report_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "tools/report/json_fields.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

constexpr double kMostMicroseconds = 1e12;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;
constexpr double kMostBytes = 1e18;
constexpr std::size_t kMostHistogramBins = 64;

Result<AnalyzedLayer> layer_from(const json& object, const std::string& where) {
  JsonFields fields(object, where);
  AnalyzedLayer layer;
  SparsityStatistics& s = layer.statistics;
  layer.name = fields.text("name");
  s.rows = fields.integer("M", 0, kMaxMatrixDimension);
  s.cols = fields.integer("K", 0, kMaxMatrixDimension);
  s.nnz = fields.integer("nnz", 0, s.rows * s.cols);
  s.sparsity = fields.number("sparsity", 0, 1);
  s.row_mean = fields.number("row_mean", 0, kMaxMatrixDimension);
  s.row_cov = fields.number("row_cov", 0, kMaxMatrixDimension);
  s.row_max_over_mean = fields.number("row_max_over_mean", 0, kMaxMatrixDimension);
  s.empty_row_fraction = fields.number("empty_row_frac", 0, 1);
  s.column_cov = fields.number("col_cov", 0, kMaxMatrixDimension);
  s.row_min = fields.integer("row_min", 0, s.cols);
  s.row_max = fields.integer("row_max", 0, s.cols);
  for (std::size_t i = 0; i < SparsityStatistics::kBlockSizes.size(); ++i) {
    const int size = SparsityStatistics::kBlockSizes[i];
    s.block_fill[i] = fields.number(fmt::format("b{}_fill", size).c_str(), 0, 1);
    s.block_touched[i] = fields.number(fmt::format("b{}_nzb", size).c_str(), 0, 1);
  }
  s.two_four_legal = fields.number("n24_ok_frac", 0, 1);
  const std::string type = fields.text("dtype");
  if (const auto known = data_type_from_short_name(type)) {
    s.data_type = *known;
  } else {
    fields.fail(invalid_input(fields.place("dtype") + ": unknown type '" + type + "'"));
  }
  const json& histogram = fields.array("row_length_histogram");
  if (histogram.size() > kMostHistogramBins)
    fields.fail(invalid_input(fields.place("row_length_histogram") + " has too many bins"));
  for (const json& bin : histogram) {
    const auto rows = json_integer(bin, 0, s.rows);
    if (!rows) fields.fail(invalid_input(fields.place("row_length_histogram") + ": a bin is no count of rows"));
    s.row_length_histogram.push_back(rows.value_or(0));
  }
  if (!fields.status().ok()) return fields.status();
  return layer;
}

Result<LayerAnalysis> analysis_from(const json& object, const std::string& name) {
  JsonFields fields(object, name);
  LayerAnalysis analysis{.source = name};
  const json& weights = fields.array("weights");
  for (std::size_t i = 0; i < weights.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(AnalyzedLayer layer, layer_from(weights[i], fields.place("weights", i)));
    analysis.layers.push_back(std::move(layer));
  }
  if (!fields.status().ok()) return fields.status();
  return analysis;
}

double median_of(const json& timing, const std::string& where, Status& status) {
  JsonFields fields(timing, where);
  const double us = fields.number("median_us", 0, kMostMicroseconds);
  if (status.ok()) status = fields.status();
  return us;
}

// The first word of a config is the family that it configures.
std::string family_of(const std::string& config) { return config.substr(0, config.find(' ')); }

// What a choice of a run and a line of cells have in common.
void read_choice(JsonFields& fields, ResultCase& one) {
  one.tokens = fields.integer("tokens", 1, kMostTokens);
  one.measured = fields.text("evidence") == "measured";
  one.config = fields.text_or("config", "dense");
  // Earlier versions gave a library's name in place of the config.
  one.family = fields.text_or("kind", "generated") == "generated" ? family_of(one.config) : "dense";
  JsonFields timing(fields.object_or_none("timing"), fields.place("timing"));
  one.us = timing.number("median_us", 0, kMostMicroseconds);
  one.q1_us = timing.number_or("q1_us", 0, kMostMicroseconds, one.us);
  one.q3_us = timing.number_or("q3_us", 0, kMostMicroseconds, one.us);
  fields.fail(timing.status());
}

void read_weight(JsonFields& fields, const char* name, const char* rows, const char* cols, ResultCase& one) {
  one.weight = fields.text(name);
  one.rows = fields.integer(rows, 0, kMaxMatrixDimension);
  one.cols = fields.integer(cols, 0, kMaxMatrixDimension);
  one.nnz = fields.integer("nnz", 0, one.rows * one.cols);
  one.sparsity = fields.number("sparsity", 0, 1);
  one.operator_name = fields.text("operator");
}

void read_trials(JsonFields& choice, ResultCase& one) {
  const json& trials = choice.array_or_none("trials");
  for (std::size_t i = 0; i < trials.size(); ++i) {
    JsonFields fields(trials[i], choice.place("trials", i));
    one.tried.push_back({fields.text("config"), fields.number_or("predicted_us", 0, kMostMicroseconds, 0),
                         fields.number_or("median_us", 0, kMostMicroseconds, 0), fields.text("outcome")});
    choice.fail(fields.status());
  }
}

// The peers of one choice. `bytes`: of the weight, as the libraries hold it.
void read_vendors(JsonFields& choice, ResultCase& one, WeightBytes& bytes) {
  const json& vendors = choice.array_or_none("vendors");
  for (std::size_t i = 0; i < vendors.size(); ++i) {
    JsonFields fields(vendors[i], choice.place("vendors", i));
    const std::string name = fields.text("name");
    const json& timing = fields.object_or_none("timing");
    if (!timing.empty()) {
      Status status;
      const double us = median_of(timing, fields.place("timing"), status);
      fields.fail(status);
      if (name == "cublas" || name == "dense") one.cublas_us = us;
      if (name == "cusparse") {
        one.cusparse_us = us;
        bytes.cusparse = fields.number_or("weight_bytes", 0, kMostBytes, 0);
      }
    }
    choice.fail(fields.status());
  }
}

void read_ablation(JsonFields& choice, ResultCase& one) {
  JsonFields fields(choice.object_or_none("ablation"), choice.place("ablation"));
  const std::pair<const char*, double*> builds[] = {{"full", &one.ablation.full_us},
                                                    {"no_decode", &one.ablation.no_decode_us},
                                                    {"no_multiply", &one.ablation.no_multiply_us},
                                                    {"copy_only", &one.ablation.copy_only_us}};
  for (const auto& [key, us] : builds) {
    const json& timing = fields.object_or_none(key);
    if (timing.empty()) continue;
    Status status;
    *us = median_of(timing, fields.place(key), status);
    fields.fail(status);
  }
  choice.fail(fields.status());
}

Result<ResultCase> choice_from(const json& object, const std::string& where, const ResultCase& weight,
                               WeightBytes& bytes) {
  JsonFields fields(object, where);
  ResultCase one = weight;
  read_choice(fields, one);
  one.predicted_us = fields.number_or("predicted_us", 0, kMostMicroseconds, 0);
  one.packed_bytes = fields.number_or("packed_bytes", 0, kMostBytes, 0);
  one.bytes_moved = fields.number_or("bytes_moved", 0, kMostBytes, 0);
  JsonFields roofline(fields.object_or_none("roofline"), fields.place("roofline"));
  one.bound_us = roofline.number_or("us", 0, kMostMicroseconds, 0);
  one.bound_by = roofline.text_or("by", "");
  fields.fail(roofline.status());
  read_ablation(fields, one);
  read_vendors(fields, one, bytes);
  // Dense as the whole operator, where the library does not do all of it.
  one.cublas_us = fields.number_or("dense_us", 0, kMostMicroseconds, one.cublas_us);
  read_trials(fields, one);
  if (!fields.status().ok()) return fields.status();
  return one;
}

Status add_weight(const json& object, const std::string& where, TuningResults& results) {
  JsonFields fields(object, where);
  ResultCase weight;
  read_weight(fields, "name", "M", "K", weight);
  WeightBytes bytes{weight.weight, weight.sparsity, fields.number_or("dense_bytes", 0, kMostBytes, 0),
                    fields.number_or("gpu_bytes", 0, kMostBytes, 0)};
  const json& choices = fields.array("choices");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(ResultCase one, choice_from(choices[i], fields.place("choices", i), weight, bytes));
    results.cases.push_back(std::move(one));
  }
  // One entry for each operator of the weight, each with the bytes of all.
  const bool known = std::ranges::find(results.bytes, bytes.weight, &WeightBytes::weight) != results.bytes.end();
  if (bytes.dense > 0 && !known) results.bytes.push_back(std::move(bytes));
  return fields.status();
}

// The numbers of an object, by key.
std::map<std::string, double> numbers_of(JsonFields& fields, const char* key) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : fields.object_or_none(key).items()) {
    if (value.is_number() && std::isfinite(value.get<double>())) numbers[name] = value.get<double>();
  }
  return numbers;
}

Result<TuningResults> run_from(const json& object, const std::string& name) {
  JsonFields fields(object, name);
  TuningResults results{.source = name};
  JsonFields device(fields.object_or_none("device"), fields.place("device"));
  results.device = device.text("name");
  results.memory_bandwidth = device.number_or("memory_bandwidth", 0, kMostBytes, 0);
  fields.fail(device.status());
  const std::map<std::string, double> counts = numbers_of(fields, "counts");
  for (const char* part : {"compile", "verify", "timing", "library"}) {
    const auto found = counts.find(std::string(part) + "_seconds");
    if (found != counts.end() && found->second >= 0) results.seconds[part] = found->second;
  }
  results.cuts = numbers_of(fields, "cuts");
  results.rejections = numbers_of(fields, "rejected");
  const json& weights = fields.array("weights");
  for (std::size_t i = 0; i < weights.size(); ++i)
    SPARSMITH_RETURN_IF_ERROR(add_weight(weights[i], fields.place("weights", i), results));
  if (!fields.status().ok()) return fields.status();
  return results;
}

Status add_cell(const json& object, const std::string& where, TuningResults& results) {
  JsonFields fields(object, where);
  ResultCase one;
  read_weight(fields, "weight", "rows", "cols", one);
  read_choice(fields, one);
  one.weight = fields.text_or("source", one.weight);
  Status status;
  for (const auto& [key, us] : {std::pair{"cublas", &one.cublas_us}, std::pair{"cusparse", &one.cusparse_us}}) {
    const json& timing = fields.object_or_none(key);
    if (!timing.empty()) *us = median_of(timing, fields.place(key), status);
  }
  fields.fail(status);
  results.device = fields.text_or("device", results.device);
  results.cases.push_back(std::move(one));
  return fields.status();
}

Result<HistorySeries> series_from(const json& object, const std::string& where) {
  JsonFields fields(object, where);
  HistorySeries series;
  series.name = fields.text("case");
  series.unit = fields.text_or("unit", "us");
  for (const char* key : {"operator", "device_class", "cache_policy"}) {
    const std::string part = fields.text_or(key, "");
    if (!part.empty()) series.detail += (series.detail.empty() ? "" : ", ") + part;
  }
  const json& points = fields.array("points");
  for (std::size_t i = 0; i < points.size(); ++i) {
    JsonFields point(points[i], fields.place("points", i));
    const double median = point.number("median", 0, kMostMicroseconds);
    series.points.push_back({point.text("commit"), median, point.number_or("low", 0, kMostMicroseconds, median),
                             point.number_or("high", 0, kMostMicroseconds, median), point.text_or("segment", "")});
    fields.fail(point.status());
  }
  const json& changes = fields.array_or_none("changes");
  if (points.empty() && !changes.empty()) fields.fail(invalid_input(fields.place("changes") + ": there are no points"));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    JsonFields change(changes[i], fields.place("changes", i));
    const std::int64_t last = static_cast<std::int64_t>(points.size()) - 1;
    series.changes.push_back({static_cast<std::size_t>(change.integer("at", 0, std::max<std::int64_t>(0, last))),
                              change.number("before", 0, kMostMicroseconds),
                              change.number("after", 0, kMostMicroseconds), change.text_or("accepted", "")});
    fields.fail(change.status());
  }
  if (!fields.status().ok()) return fields.status();
  return series;
}

Result<PerformanceHistory> history_from(const json& object, const std::string& name) {
  JsonFields fields(object, name);
  PerformanceHistory history{.source = name};
  const json& all = fields.array("history");
  for (std::size_t i = 0; i < all.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(HistorySeries series, series_from(all[i], fields.place("history", i)));
    history.series.push_back(std::move(series));
  }
  if (!fields.status().ok()) return fields.status();
  return history;
}

// A share of zeros, or nothing.
std::optional<double> share_or_none(JsonFields& fields, const char* key) {
  const double share = fields.number_or(key, 0, 1, -1);
  return share < 0 ? std::nullopt : std::optional(share);
}

Result<BreakEvenCase> break_even_case_from(const json& object, const std::string& where) {
  JsonFields fields(object, where);
  BreakEvenCase one;
  one.name = fields.text("operator") + ", " + fields.text("pattern");
  one.tokens = fields.integer("tokens", 1, kMostTokens);
  one.dense_at = share_or_none(fields, "dense_at");
  one.sparse_at = share_or_none(fields, "sparse_at");
  one.changes_once = !object.contains("changes_once") || object["changes_once"] != json(false);
  const json& probes = fields.array("probes");
  for (std::size_t i = 0; i < probes.size(); ++i) {
    JsonFields probe(probes[i], fields.place("probes", i));
    one.probes.push_back({probe.number("sparsity", 0, 1), probe.number("us", 0, kMostMicroseconds),
                          probe.number("dense_us", 0, kMostMicroseconds), probe.text("choice"),
                          probe.text("evidence") == "measured"});
    fields.fail(probe.status());
  }
  if (!fields.status().ok()) return fields.status();
  return one;
}

Result<BreakEvenResults> break_even_from(const json& object, const std::string& name) {
  JsonFields fields(object, name);
  BreakEvenResults results{.source = name};
  JsonFields device(fields.object_or_none("device"), fields.place("device"));
  results.device = device.text("name");
  fields.fail(device.status());
  const json& cases = fields.array("break_even");
  if (!fields.status().ok()) return fields.status();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(BreakEvenCase one, break_even_case_from(cases[i], fields.place("break_even", i)));
    results.cases.push_back(std::move(one));
  }
  return results;
}

Result<SimulatedSpace> simulated_space_from(const json& object, const std::string& where) {
  constexpr double kMostRegret = 1e9;
  JsonFields fields(object, where);
  SimulatedSpace space;
  space.name = fields.text("space");
  space.best_us = fields.number("best_us", 0, kMostMicroseconds);
  space.candidates = fields.integer("candidates", 1, kMostTokens);
  space.predicted = fields.number("predicted", 0, kMostRegret);
  const json& strategies = fields.array("strategies");
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    JsonFields one(strategies[i], fields.place("strategies", i));
    SimulatedStrategy& strategy = space.strategies.emplace_back();
    strategy.name = one.text("strategy");
    strategy.tried = one.number("tried", 0, kMostRegret);
    strategy.regret = one.number("regret", 1, kMostRegret);
    strategy.worst = one.number("worst", 1, kMostRegret);
    for (const json& value : one.array("best_found_over_best")) {
      if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
        return invalid_input(one.place("best_found_over_best") + " holds what is no positive number");
      strategy.curve.push_back(value.get<double>());
    }
    fields.fail(one.status());
  }
  if (!fields.status().ok()) return fields.status();
  return space;
}

Result<SimulationResults> simulation_from(const json& object, const std::string& name) {
  JsonFields fields(object, name);
  SimulationResults results{.source = name};
  const json& spaces = fields.array("simulated");
  if (!fields.status().ok()) return fields.status();
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(SimulatedSpace space, simulated_space_from(spaces[i], fields.place("simulated", i)));
    results.spaces.push_back(std::move(space));
  }
  return results;
}

bool is_cell(const json& value) { return value.is_object() && value.contains("tokens") && value.contains("timing"); }

Result<TuningResults> cells_from(std::string_view text, const std::string& name) {
  TuningResults results{.source = name};
  std::size_t line = 0;
  while (!text.empty()) {
    ++line;
    const std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", name, line);
    const auto cell = parse_json(one);
    if (!cell.ok() || !is_cell(*cell))
      return invalid_input(where + ": is no JSON object with \"tokens\" and \"timing\"");
    SPARSMITH_RETURN_IF_ERROR(add_cell(*cell, where, results));
  }
  return results;
}

}  // namespace

Status add_report_json(std::string_view text, const std::string& name, ReportInputs& inputs) {
  const std::string_view first_line = text.substr(0, text.find('\n'));
  const auto first = parse_json(first_line);
  if (first.ok() && is_cell(*first)) {
    SPARSMITH_ASSIGN_OR_RETURN(TuningResults results, cells_from(text, name));
    inputs.results.push_back(std::move(results));
    return {};
  }
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status().annotate(name + ": is neither JSON nor JSON lines");
  const json& object = *parsed;
  if (object.is_object() && object.contains("history")) {
    SPARSMITH_ASSIGN_OR_RETURN(PerformanceHistory history, history_from(object, name));
    inputs.histories.push_back(std::move(history));
    return {};
  }
  if (object.is_object() && object.contains("break_even")) {
    SPARSMITH_ASSIGN_OR_RETURN(BreakEvenResults results, break_even_from(object, name));
    inputs.break_evens.push_back(std::move(results));
    return {};
  }
  if (object.is_object() && object.contains("simulated")) {
    SPARSMITH_ASSIGN_OR_RETURN(SimulationResults results, simulation_from(object, name));
    inputs.simulations.push_back(std::move(results));
    return {};
  }
  if (!object.is_object() || !object.contains("weights")) {
    return invalid_input(name +
                         ": holds none of what a report is made of: \"weights\" of analyze, tune or bench, "
                         "\"break_even\", \"simulated\", "
                         "\"history\", or lines of cells");
  }
  if (object.contains("device")) {
    SPARSMITH_ASSIGN_OR_RETURN(TuningResults results, run_from(object, name));
    inputs.results.push_back(std::move(results));
    return {};
  }
  SPARSMITH_ASSIGN_OR_RETURN(LayerAnalysis analysis, analysis_from(object, name));
  inputs.analyses.push_back(std::move(analysis));
  return {};
}

}  // namespace sparsmith::tools
