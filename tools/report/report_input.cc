#include "tools/report/report_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/json_text.h"
#include "base/split.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

constexpr double kMostMicroseconds = 1e12;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;
constexpr double kMostBytes = 1e18;
constexpr std::size_t kMostHistogramBins = 64;
constexpr std::size_t kDateLength = 10;  // of "2026-01-31T12:00:00Z"

// Reads each element of an array that `fields` has at `key`.
template <class Read>
void each(JsonReader& fields, const char* key, const json& elements, const Read& read) {
  std::size_t index = 0;
  for (const json& element : elements) {
    JsonReader one(element, fields.place(key, index++));
    read(one);
    fields.adopt(one.status());
  }
}

// Reads an object inside, which may be missing.
template <class Read>
void inside(JsonReader& fields, const char* key, const Read& read) {
  JsonReader one(fields.object_or_none(key), fields.place(key));
  read(one);
  fields.adopt(one.status());
}

double us_of(JsonReader& fields, const char* key) { return fields.number(key, 0, kMostMicroseconds); }
double us_or(JsonReader& fields, const char* key, double otherwise) {
  return fields.number_or(key, 0, kMostMicroseconds, otherwise);
}
double bytes_or_none(JsonReader& fields, const char* key) { return fields.number_or(key, 0, kMostBytes, 0); }

// The median of a timing; 0 without the timing.
double median_or_none(JsonReader& fields, const char* key) {
  double us = 0;
  if (!fields.object_or_none(key).empty())
    inside(fields, key, [&](JsonReader& timing) { us = us_of(timing, "median_us"); });
  return us;
}

AnalyzedLayer layer_from(JsonReader& fields) {
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
    const std::string fill = fmt::format("b{}_fill", size);
    const std::string touched = fmt::format("b{}_nzb", size);
    if (size > 32 && !fields.has(fill.c_str())) continue;  // which earlier versions do not write
    s.block_fill[i] = fields.number(fill.c_str(), 0, 1);
    s.block_touched[i] = fields.number(touched.c_str(), 0, 1);
  }
  s.two_four_legal = fields.number("n24_ok_frac", 0, 1);
  layer.structure = fields.text_or("structure", "");  // which earlier versions do not write
  const std::string type = fields.text("dtype");
  if (const auto known = data_type_from_short_name(type)) {
    s.data_type = *known;
  } else {
    fields.fail("dtype", "is no known type: " + type);
  }
  s.row_length_histogram = fields.integers("row_length_histogram", 0, s.rows);
  if (s.row_length_histogram.size() > kMostHistogramBins) fields.fail("row_length_histogram", "has too many bins");
  return layer;
}

void read_analysis(JsonReader& fields, LayerAnalysis& analysis) {
  each(fields, "weights", fields.array("weights"),
       [&](JsonReader& weight) { analysis.layers.push_back(layer_from(weight)); });
}

// What a choice of a run and a line of cells have in common.
void read_choice(JsonReader& fields, ResultCase& one) {
  one.tokens = fields.integer("tokens", 1, kMostTokens);
  one.measured = fields.text("evidence") == "measured";
  // Earlier versions gave a library's name in place of the config.
  one.family =
      fields.text_or("kind", "generated") == "generated" ? family_of(fields.text_or("config", "dense")) : "dense";
  inside(fields, "timing", [&](JsonReader& timing) { one.us = us_of(timing, "median_us"); });
}

void read_weight(JsonReader& fields, const char* name, const char* rows, const char* cols, ResultCase& one) {
  one.weight = fields.text(name);
  one.rows = fields.integer(rows, 0, kMaxMatrixDimension);
  one.cols = fields.integer(cols, 0, kMaxMatrixDimension);
  one.nnz = fields.integer("nnz", 0, one.rows * one.cols);
  one.sparsity = fields.number("sparsity", 0, 1);
  one.operator_name = fields.text("operator");
}

// One choice of the weight that `one` holds.
ResultCase choice_from(JsonReader& fields, ResultCase one) {
  read_choice(fields, one);
  one.reason = fields.text_or("reason", "");
  one.predicted_us = us_or(fields, "predicted_us", 0);
  one.packed_bytes = bytes_or_none(fields, "packed_bytes");
  one.bytes_moved = bytes_or_none(fields, "bytes_moved");
  inside(fields, "roofline", [&](JsonReader& roofline) {
    one.bound_us = us_or(roofline, "us", 0);
    one.bound_by = roofline.text_or("by", "");
  });
  inside(fields, "ablation", [&](JsonReader& builds) {
    one.ablation = {median_or_none(builds, "full"), median_or_none(builds, "no_decode"),
                    median_or_none(builds, "no_multiply"), median_or_none(builds, "copy_only")};
  });
  each(fields, "vendors", fields.array_or_none("vendors"), [&](JsonReader& vendor) {
    const std::string name = vendor.text("name");
    const double us = median_or_none(vendor, "timing");
    if (us > 0 && (name == "cublas" || name == "dense")) one.cublas_us = us;
    if (us <= 0 || name != "cusparse") return;
    one.cusparse_us = us;
    one.cusparse_bytes = bytes_or_none(vendor, "weight_bytes");
  });
  // Dense as the whole operator, where the library does not do all of it.
  one.cublas_us = us_or(fields, "dense_us", one.cublas_us);
  each(fields, "trials", fields.array_or_none("trials"), [&](JsonReader& trial) {
    one.tried.push_back({trial.text("config"), us_or(trial, "predicted_us", 0), us_or(trial, "median_us", 0)});
  });
  return one;
}

void add_weight(JsonReader& fields, TuningResults& results) {
  ResultCase weight;
  read_weight(fields, "name", "M", "K", weight);
  weight.dense_bytes = bytes_or_none(fields, "dense_bytes");
  weight.gpu_bytes = bytes_or_none(fields, "gpu_bytes");
  each(fields, "choices", fields.array("choices"),
       [&](JsonReader& choice) { results.cases.push_back(choice_from(choice, weight)); });
}

// The numbers of an object, by key.
std::map<std::string, double> numbers_of(JsonReader& fields, const char* key) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : fields.object_or_none(key).items()) {
    if (value.is_number() && std::isfinite(value.get<double>())) numbers[name] = value.get<double>();
  }
  return numbers;
}

void read_run(JsonReader& fields, TuningResults& results) {
  inside(fields, "device", [&](JsonReader& device) {
    results.device = device.text("name");
    results.memory_bandwidth = bytes_or_none(device, "memory_bandwidth");
  });
  const std::map<std::string, double> counts = numbers_of(fields, "counts");
  for (const char* part : {"compile", "verify", "timing", "library"}) {
    const auto found = counts.find(std::string(part) + "_seconds");
    if (found != counts.end() && found->second >= 0) results.seconds[part] = found->second;
  }
  results.cuts = numbers_of(fields, "cuts");
  results.rejections = numbers_of(fields, "rejected");
  each(fields, "weights", fields.array("weights"), [&](JsonReader& weight) { add_weight(weight, results); });
}

HistorySeries series_from(JsonReader& fields) {
  HistorySeries series{.name = fields.text("case"), .unit = fields.text_or("unit", "us")};
  for (const char* key : {"operator", "device_class", "cache_policy"}) {
    const std::string part = fields.text_or(key, "");
    if (!part.empty()) series.detail += (series.detail.empty() ? "" : ", ") + part;
  }
  each(fields, "points", fields.array("points"), [&](JsonReader& point) {
    const double median = us_of(point, "median");
    series.points.push_back({point.text("commit"), median, us_or(point, "low", median), us_or(point, "high", median),
                             point.text_or("segment", ""), point.text_or("committed_at", "").substr(0, kDateLength)});
  });
  const json& changes = fields.array_or_none("changes");
  if (series.points.empty() && !changes.empty()) fields.fail("changes", "must be empty: there are no points");
  const std::int64_t last = static_cast<std::int64_t>(series.points.size()) - 1;
  each(fields, "changes", changes, [&](JsonReader& change) {
    series.changes.push_back({static_cast<std::size_t>(change.integer("at", 0, std::max<std::int64_t>(0, last))),
                              us_of(change, "before"), us_of(change, "after"), change.text_or("accepted", "")});
  });
  return series;
}

void read_history(JsonReader& fields, PerformanceHistory& history) {
  each(fields, "history", fields.array("history"),
       [&](JsonReader& series) { history.series.push_back(series_from(series)); });
}

// A share of zeros, or nothing.
std::optional<double> share_or_none(JsonReader& fields, const char* key) {
  const double share = fields.number_or(key, 0, 1, -1);
  return share < 0 ? std::nullopt : std::optional(share);
}

void read_break_evens(JsonReader& fields, BreakEvenResults& results) {
  inside(fields, "device", [&](JsonReader& device) { results.device = device.text("name"); });
  each(fields, "break_even", fields.array("break_even"), [&](JsonReader& object) {
    BreakEvenCase& one = results.cases.emplace_back();
    one.name = object.text("operator") + ", " + object.text("pattern");
    one.tokens = object.integer("tokens", 1, kMostTokens);
    one.dense_at = share_or_none(object, "dense_at");
    one.sparse_at = share_or_none(object, "sparse_at");
    one.changes_once = !object.has("changes_once") || object.boolean("changes_once");
    each(object, "probes", object.array("probes"), [&](JsonReader& probe) {
      one.probes.push_back({probe.number("sparsity", 0, 1), us_of(probe, "us"), us_of(probe, "dense_us"),
                            probe.text("choice"), probe.text("evidence") == "measured"});
    });
  });
}

void read_simulation(JsonReader& fields, SimulationResults& results) {
  constexpr double kMostRegret = 1e9;
  each(fields, "simulated", fields.array("simulated"), [&](JsonReader& object) {
    SimulatedSpace& space = results.spaces.emplace_back();
    space.name = object.text("space");
    space.best_us = us_of(object, "best_us");
    space.candidates = object.integer("candidates", 1, kMostTokens);
    space.predicted = object.number("predicted", 0, kMostRegret);
    each(object, "strategies", object.array("strategies"), [&](JsonReader& strategy) {
      space.strategies.push_back(
          {strategy.text("strategy"), strategy.number("tried", 0, kMostRegret),
           strategy.number("regret", 1, kMostRegret), strategy.number("worst", 1, kMostRegret),
           strategy.numbers("best_found_over_best", std::numeric_limits<double>::min(), kMostRegret)});
    });
  });
}

// Adds the results that `read` makes of the object.
template <class Results>
Status add(const json& object, const std::string& name, std::vector<Results>& all,
           void (*read)(JsonReader& fields, Results& results)) {
  JsonReader fields(object, name);
  Results results{.source = name};
  read(fields, results);
  if (fields.status().ok()) all.push_back(std::move(results));
  return fields.status();
}

bool is_cell(const json& value) { return value.is_object() && value.contains("tokens") && value.contains("timing"); }

Status add_cells(std::string_view text, const std::string& name, ReportInputs& inputs) {
  TuningResults results{.source = name};
  std::size_t number = 0;
  for (const std::string_view line : split(text, "\n")) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    const auto cell = parse_json(line);
    if (!cell.ok() || !is_cell(*cell))
      return invalid_input(where + ": is no JSON object with \"tokens\" and \"timing\"");
    JsonReader fields(*cell, where);
    ResultCase& one = results.cases.emplace_back();
    read_weight(fields, "weight", "rows", "cols", one);
    read_choice(fields, one);
    one.weight = fields.text_or("source", one.weight);
    one.cublas_us = median_or_none(fields, "cublas");
    one.cusparse_us = median_or_none(fields, "cusparse");
    results.device = fields.text_or("device", results.device);
    if (!fields.status().ok()) return fields.status();
  }
  inputs.results.push_back(std::move(results));
  return {};
}

}  // namespace

Status add_report_json(std::string_view text, const std::string& name, ReportInputs& inputs) {
  const auto first = parse_json(text.substr(0, text.find('\n')));
  if (first.ok() && is_cell(*first)) return add_cells(text, name, inputs);
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return parsed.status().annotate(name + ": is neither JSON nor JSON lines");
  if (const Status known = check_json_version(*parsed); !known.ok()) return known.annotate(name);
  const auto has = [&](const char* key) { return parsed->is_object() && parsed->contains(key); };
  if (has("history")) return add(*parsed, name, inputs.histories, read_history);
  if (has("break_even")) return add(*parsed, name, inputs.break_evens, read_break_evens);
  if (has("simulated")) return add(*parsed, name, inputs.simulations, read_simulation);
  if (!has("weights")) {
    return invalid_input(name +
                         ": holds none of what a report is made of: \"weights\" of analyze, tune or bench, "
                         "\"break_even\", \"simulated\", \"history\", or lines of cells");
  }
  return has("device") ? add(*parsed, name, inputs.results, read_run)
                       : add(*parsed, name, inputs.analyses, read_analysis);
}

}  // namespace sparsmith::tools
