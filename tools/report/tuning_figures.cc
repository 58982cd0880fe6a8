#include "tools/report/tuning_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tools/report/analysis_table.h"
#include "tools/report/format_curves.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kTraces = 6;
constexpr std::ptrdiff_t kLeastTrace = 3;  // candidates: fewer are no search to look at
constexpr std::size_t kReasons = 20;

std::string family_of(const std::string& config) { return config.substr(0, config.find(' ')); }

HtmlTable choice_table(const TuningResults& results) {
  HtmlTable table;
  table.title = "Choices";
  table.columns = {{"weight"},          {"shape", true}, {"zeros", true}, {"N", true},        {"choice"},
                   {"GPU bytes", true}, {"us", true},    {"dense", true}, {"speed-up", true}, {"evidence"}};
  for (const ResultCase& one : results.cases) {
    const bool compared = one.cublas_us > 0 && one.us > 0;
    table.rows.push_back({one.weight, fmt::format("{} × {}", one.rows, one.cols),
                          fmt::format("{:.1f} %", 100 * one.sparsity), std::to_string(one.tokens), one.family,
                          one.packed_bytes > 0 ? readable_bytes(std::llround(one.packed_bytes)) : "-",
                          fmt::format("{:.2f}", one.us), compared ? fmt::format("{:.2f}", one.cublas_us) : "-",
                          compared ? times_text(one.cublas_us / one.us) : "-",
                          one.measured ? "measured" : "predicted"});
  }
  return table;
}

// Operations of W X over the bytes that it moves at least, against operations a second (S. Williams, A. Waterman,
// D. Patterson, "Roofline", CACM 52(4), 2009).
Figure roofline(const TuningResults& results) {
  Figure figure;
  figure.title = "Roofline";
  figure.caption =
      "Each choice: two operations a nonzero and token, over the bytes of the packed weight, X and Y. The line is the "
      "memory's bandwidth: nothing that reads its weight from memory can be above it.";
  figure.x = {.label = "operations a byte moved", .scale = Scale::kLog};
  figure.y = {.label = "10⁹ operations a second", .scale = Scale::kLog};
  std::map<std::string, Series> families;
  double least = std::numeric_limits<double>::max();
  double most = 0;
  for (const ResultCase& one : results.cases) {
    if (one.bytes_moved <= 0 || one.us <= 0) continue;
    const double elements =
        one.dense() ? static_cast<double>(one.rows) * static_cast<double>(one.cols) : static_cast<double>(one.nnz);
    const double operations = 2 * elements * static_cast<double>(one.tokens);
    const double intensity = operations / one.bytes_moved;
    Series& series = families[one.family];
    series.x.push_back(intensity);
    series.y.push_back(operations / one.us / 1e3);
    std::string label = case_text(one);
    if (results.memory_bandwidth > 0) {
      label += fmt::format(", {:.0f} % of the memory's bandwidth",
                           100 * one.bytes_moved / (one.us * 1e-6) / results.memory_bandwidth);
    }
    series.labels.push_back(std::move(label));
    least = std::min(least, intensity);
    most = std::max(most, intensity);
  }
  if (families.empty()) return figure;
  if (results.memory_bandwidth > 0) {
    Series roof{.kind = Series::Kind::kLine, .colour = Colour::kNeutral};
    roof.name = fmt::format("memory, {:.0f} GB/s", results.memory_bandwidth / 1e9);
    for (const double x : {least / 1.5, most * 1.5}) {
      roof.x.push_back(x);
      roof.y.push_back(x * results.memory_bandwidth / 1e9);
    }
    figure.series.push_back(std::move(roof));
  }
  for (auto& [family, series] : families) {
    series.kind = Series::Kind::kPoints;
    series.name = family;
    series.colour = colour_of_family(family);
    figure.series.push_back(std::move(series));
  }
  return figure;
}

HtmlTable bandwidth_table(const TuningResults& results) {
  HtmlTable table;
  table.title = "Bytes moved, and what of the roofline is reached";
  table.columns = {{"weight"},     {"N", true},           {"choice"},   {"bytes", true},
                   {"GB/s", true}, {"roofline us", true}, {"bound by"}, {"reached", true}};
  for (const ResultCase& one : results.cases) {
    if (one.bytes_moved <= 0 || one.us <= 0) continue;
    const double bandwidth = one.bytes_moved / (one.us * 1e-6);
    // Results that do not say it, as tuned files, are older or know no more than the bytes.
    const bool stated = one.bound_us > 0;
    const double memory_us = results.memory_bandwidth > 0 ? one.bytes_moved / results.memory_bandwidth * 1e6 : 0;
    const double bound = stated ? one.bound_us : memory_us;
    const std::string by = stated ? one.bound_by : "memory";
    table.rows.push_back({one.weight, std::to_string(one.tokens), one.family,
                          one.packed_bytes > 0 ? readable_bytes(std::llround(one.packed_bytes)) : "-",
                          readable_bytes(std::llround(one.bytes_moved)), fmt::format("{:.0f}", bandwidth / 1e9),
                          bound > 0 ? fmt::format("{:.2f}", bound) : "-", bound > 0 ? by : "-",
                          bound > 0 ? fmt::format("{:.0f} %", 100 * bound / one.us) : "-"});
  }
  return table;
}

// Where the time of kernels goes, as far as that was asked for.
HtmlTable ablation_table(const TuningResults& results) {
  HtmlTable table;
  table.title = "Kernels without a part (what overlaps is hidden: differences do not add up)";
  table.columns = {{"weight"},
                   {"N", true},
                   {"choice"},
                   {"full us", true},
                   {"no decode us", true},
                   {"no multiply us", true},
                   {"copy only us", true},
                   {"roofline us", true}};
  const auto cell = [](double us) { return us > 0 ? fmt::format("{:.2f}", us) : std::string("-"); };
  for (const ResultCase& one : results.cases) {
    const ResultCase::Ablation& times = one.ablation;
    if (times.full_us <= 0) continue;
    table.rows.push_back({one.weight, std::to_string(one.tokens), one.family, cell(times.full_us),
                          cell(times.no_decode_us), cell(times.no_multiply_us), cell(times.copy_only_us),
                          cell(one.bound_us)});
  }
  return table;
}

// Every candidate with a prediction and a time; without candidates, the choices.
struct Prediction {
  std::string family;
  std::string label;
  double predicted_us = 0;
  double us = 0;
};

std::vector<Prediction> predictions_of(const TuningResults& results) {
  std::vector<Prediction> predictions;
  for (const ResultCase& one : results.cases) {
    if (!one.measured) continue;
    for (const TriedCandidate& candidate : one.tried) {
      if (candidate.predicted_us <= 0 || candidate.us <= 0) continue;
      predictions.push_back({family_of(candidate.config),
                             fmt::format("{}, N = {}: {}", one.weight, one.tokens, candidate.config),
                             candidate.predicted_us, candidate.us});
    }
    if (one.tried.empty() && one.predicted_us > 0 && one.us > 0)
      predictions.push_back({one.family, case_text(one), one.predicted_us, one.us});
  }
  return predictions;
}

Block predictions_block(const std::vector<Prediction>& predictions, bool candidates) {
  const char* const what = candidates ? "candidate that was timed" : "choice; the results name no other candidates";
  Figure figure;
  figure.title = fmt::format("{}: predicted against measured", candidates ? "Candidates" : "Choices");
  figure.caption = fmt::format("Each {}. On the line the cost model is right; above it, it was too hopeful.", what);
  figure.x = {.label = "predicted, us", .scale = Scale::kLog};
  figure.y = {.label = "measured, us", .scale = Scale::kLog};
  HtmlTable table;
  table.title = "Measured over predicted";
  table.columns = {{"family"}, {"count", true}, {"geometric mean", true}, {"10 %", true}, {"90 %", true}};
  std::map<std::string, std::vector<double>> ratios;
  std::map<std::string, Series> families;
  double least = predictions.front().us;
  double most = least;
  for (const Prediction& one : predictions) {
    Series& series = families[one.family];
    series.x.push_back(one.predicted_us);
    series.y.push_back(one.us);
    series.labels.push_back(
        fmt::format("{}: predicted {:.2f} us, measured {:.2f} us", one.label, one.predicted_us, one.us));
    ratios[one.family].push_back(one.us / one.predicted_us);
    least = std::min({least, one.us, one.predicted_us});
    most = std::max({most, one.us, one.predicted_us});
  }
  figure.series.push_back({.kind = Series::Kind::kLine,
                           .name = "measured as predicted",
                           .colour = Colour::kNeutral,
                           .dashed = true,
                           .x = {least, most},
                           .y = {least, most}});
  for (auto& [family, series] : families) {
    series.kind = Series::Kind::kPoints;
    series.name = family;
    series.colour = colour_of_family(family);
    figure.series.push_back(std::move(series));
    std::vector<double>& all = ratios[family];
    std::ranges::sort(all);
    table.rows.push_back({family, std::to_string(all.size()), times_text(geometric_mean(all)),
                          times_text(all[all.size() / 10]), times_text(all[all.size() - 1 - all.size() / 10])});
  }
  return {.figures = {std::move(figure)}, .table = std::move(table)};
}

// One case on its way to the choice.
Figure trace_of(const ResultCase& one) {
  Figure figure;
  figure.title = fmt::format("{}, N = {}", one.weight, one.tokens);
  figure.x = {.label = "candidate, in the order of trial"};
  figure.y = {.label = one.measured ? "time, us" : "predicted time, us", .scale = Scale::kLog};
  Series best{.kind = Series::Kind::kSteps, .name = "best so far", .colour = Colour::kNeutral};
  std::map<std::string, Series> families;
  double least = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < one.tried.size(); ++i) {
    const TriedCandidate& candidate = one.tried[i];
    if (candidate.us <= 0) continue;
    Series& series = families[family_of(candidate.config)];
    series.x.push_back(static_cast<double>(i + 1));
    series.y.push_back(candidate.us);
    series.labels.push_back(fmt::format("{}: {:.2f} us", candidate.config, candidate.us));
    least = std::min(least, candidate.us);
    best.x.push_back(static_cast<double>(i + 1));
    best.y.push_back(least);
  }
  figure.series.push_back(std::move(best));
  for (auto& [family, series] : families) {
    series.kind = Series::Kind::kPoints;
    series.name = family;
    series.colour = colour_of_family(family);
    figure.series.push_back(std::move(series));
  }
  if (one.cublas_us > 0) figure.rules.push_back({.text = "dense", .y = one.cublas_us});
  return figure;
}

Block traces_block(const TuningResults& results) {
  std::vector<const ResultCase*> traced;
  for (const ResultCase& one : results.cases) {
    const auto timed =
        std::ranges::count_if(one.tried, [](const TriedCandidate& candidate) { return candidate.us > 0; });
    if (timed >= kLeastTrace) traced.push_back(&one);
  }
  Block block;
  if (traced.empty()) return block;
  std::ranges::stable_sort(traced, std::greater<>(), [](const ResultCase* one) { return one->tried.size(); });
  if (traced.size() > kTraces) traced.resize(kTraces);
  block.text = "How the search went: each candidate in the order of its trial, and the best so far.";
  for (const ResultCase* one : traced) block.figures.push_back(trace_of(*one));
  return block;
}

Block bytes_block(const TuningResults& results) {
  const bool half = results.cases.empty() || results.cases.front().operator_name.find("fp32") == std::string::npos;
  Block block;
  Figure& figure = block.figures.emplace_back(format_curves(half ? DataType::kFloat16 : DataType::kFloat32));
  figure.title = "Bytes of the weights against sparsity";
  figure.caption = fmt::format(
      "All packed copies that the choices need, over the dense weight. Lines: formats with zeros at random, {} values; "
      "circles: where they break even.",
      half ? "16-bit" : "32-bit");
  Series ours{.kind = Series::Kind::kPoints, .name = "as chosen", .colour = Colour::kVermillion};
  Series cusparse{.kind = Series::Kind::kPoints, .name = "cuSPARSE", .colour = Colour::kNeutral};
  HtmlTable table;
  table.title = "Bytes on the GPU";
  table.columns = {{"weight"}, {"zeros", true}, {"dense", true}, {"chosen", true}, {"share", true}};
  for (const WeightBytes& one : results.bytes) {
    ours.x.push_back(one.sparsity);
    ours.y.push_back(one.chosen / one.dense);
    ours.labels.push_back(fmt::format("{}: {}", one.weight, readable_bytes(std::llround(one.chosen))));
    if (one.cusparse > 0) {
      cusparse.x.push_back(one.sparsity);
      cusparse.y.push_back(one.cusparse / one.dense);
      cusparse.labels.push_back(fmt::format("{}: {}", one.weight, readable_bytes(std::llround(one.cusparse))));
    }
    table.rows.push_back({one.weight, fmt::format("{:.2f} %", 100 * one.sparsity),
                          readable_bytes(std::llround(one.dense)), readable_bytes(std::llround(one.chosen)),
                          fmt::format("{:.3f}", one.chosen / one.dense)});
  }
  if (!cusparse.x.empty()) figure.series.push_back(std::move(cusparse));
  figure.series.push_back(std::move(ours));
  block.table = std::move(table);
  return block;
}

HtmlTable most_frequent(const std::map<std::string, double>& counts, const char* title, const char* what) {
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [reason, count] : counts) sorted.emplace_back(count, reason);
  std::ranges::sort(sorted, std::greater<>());
  HtmlTable table;
  table.title = title;
  table.columns = {{what}, {"count", true}};
  for (std::size_t i = 0; i < std::min(kReasons, sorted.size()); ++i)
    table.rows.push_back({sorted[i].second, fmt::format("{:.0f}", sorted[i].first)});
  return table;
}

Block effort_block(const TuningResults& results) {
  Figure figure;
  figure.title = "Where the time went";
  figure.x = {.label = "part of the run", .scale = Scale::kCategories};
  figure.y = {.label = "seconds", .low = 0};
  Series bars{.kind = Series::Kind::kBars, .colour = Colour::kBlue};
  for (const auto& [part, seconds] : results.seconds) {
    bars.x.push_back(static_cast<double>(figure.x.categories.size()));
    bars.y.push_back(seconds);
    bars.labels.push_back(fmt::format("{}: {:.2f} s", part, seconds));
    figure.x.categories.push_back(part);
  }
  figure.series.push_back(std::move(bars));
  Block block;
  block.figures.push_back(std::move(figure));
  if (!results.cuts.empty()) block.table = most_frequent(results.cuts, "Configs that a rule left out", "rule");
  return block;
}

}  // namespace

Section tuning_section(const TuningResults& results) {
  Section section;
  section.title = fmt::format("Tuning: {}", results.source);
  const auto measured = std::ranges::count_if(results.cases, &ResultCase::measured);
  section.text = fmt::format("{}: {} choices, {}.", results.device, results.cases.size(),
                             measured == static_cast<std::ptrdiff_t>(results.cases.size()) ? "all measured"
                             : measured == 0 ? "PREDICTED, none of them measured"
                                             : fmt::format("{} of them measured, the others PREDICTED", measured));
  if (results.cases.empty()) return section;
  Figure roof = roofline(results);
  section.blocks.push_back({.table = choice_table(results)});
  if (!roof.series.empty()) section.blocks.push_back({.figures = {std::move(roof)}, .table = bandwidth_table(results)});
  HtmlTable ablations = ablation_table(results);
  if (!ablations.rows.empty()) section.blocks.push_back({.table = std::move(ablations)});
  const std::vector<Prediction> predictions = predictions_of(results);
  const bool has_candidates =
      std::ranges::any_of(results.cases, [](const ResultCase& one) { return !one.tried.empty(); });
  if (!predictions.empty()) section.blocks.push_back(predictions_block(predictions, has_candidates));
  Block traces = traces_block(results);
  if (!traces.figures.empty()) section.blocks.push_back(std::move(traces));
  if (!results.bytes.empty()) section.blocks.push_back(bytes_block(results));
  if (!results.seconds.empty()) section.blocks.push_back(effort_block(results));
  if (!results.rejections.empty())
    section.blocks.push_back({.table = most_frequent(results.rejections, "Rejected candidates", "reason")});
  return section;
}

}  // namespace sparsmith::tools
