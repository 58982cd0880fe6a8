#include "tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tools/report/analysis_table.h"
#include "tools/report/format_curves.h"
#include "tools/report/layers.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kTraces = 6;
constexpr std::ptrdiff_t kLeastTrace = 3;  // candidates: fewer are no search to look at
constexpr std::size_t kReasons = 20;

// The family's points among those of all families.
Series& points_of(const std::string& family, std::map<std::string, Series>& families) {
  const Series none{.kind = Series::Kind::kPoints, .name = family, .colour = colour_of_family(family)};
  return families.try_emplace(family, none).first->second;
}

// Operations of W X over the bytes that it moves at least, against operations a second (S. Williams, A. Waterman,
// D. Patterson, "Roofline", CACM 52(4), 2009).
Figure roofline(const TuningResults& results) {
  Figure figure{
      .title = "Speed against operations a byte",
      .caption =
          "Each choice: two operations a nonzero and token, over the bytes of the packed weight, X and Y. The "
          "line is the memory's bandwidth: nothing that reads its weight from memory can be above it.",
      .x = {.label = "operations a byte moved", .scale = Scale::kLog},
      .y = {.label = "10⁹ operations a second", .scale = Scale::kLog}};
  std::map<std::string, Series> families;
  double least = std::numeric_limits<double>::max();
  double most = 0;
  for (const ResultCase& one : results.cases) {
    if (one.bytes_moved <= 0 || one.us <= 0) continue;
    const double elements =
        one.dense() ? static_cast<double>(one.rows) * static_cast<double>(one.cols) : static_cast<double>(one.nnz);
    const double operations = 2 * elements * static_cast<double>(one.tokens);
    const double intensity = operations / one.bytes_moved;
    std::string label = case_text(one);
    if (results.memory_bandwidth > 0) {
      label += fmt::format(", {} of the memory's bandwidth",
                           percent(one.bytes_moved / (one.us * 1e-6) / results.memory_bandwidth, 0));
    }
    points_of(one.family, families).add(intensity, operations / one.us / 1e3, std::move(label));
    least = std::min(least, intensity);
    most = std::max(most, intensity);
  }
  if (results.memory_bandwidth > 0 && !families.empty()) {
    const double speed = results.memory_bandwidth / 1e9;
    const std::vector<double> x = {least / 1.5, most * 1.5};
    figure.add({.name = fmt::format("memory, {:.0f} GB/s", speed),
                .colour = Colour::kNeutral,
                .x = x,
                .y = {x[0] * speed, x[1] * speed}});
  }
  for (auto& [family, series] : families) figure.add(std::move(series));
  return figure;
}

Table bandwidth_table(const TuningResults& results) {
  Table table{.title = "Bytes moved, and what of the roofline is reached",
              .columns = {"weights", ">N", ">moved", ">GB/s", ">roofline us", "bound by", ">reached"}};
  std::vector<ResultCase> known;
  for (const ResultCase& one : results.cases) {
    if (one.bytes_moved <= 0 || one.us <= 0) continue;
    ResultCase& added = known.emplace_back(one);
    if (one.bound_us > 0) continue;
    // Results without a bound, as tuned files, are older or know no more than the bytes.
    added.bound_us = results.memory_bandwidth > 0 ? one.bytes_moved / results.memory_bandwidth * 1e6 : 0;
    added.bound_by = added.bound_us > 0 ? "memory" : "-";
  }
  add_folded(table, folded_layers(known), [](const Layers& layers) -> std::vector<std::string> {
    const ResultCase& first = layers.first();
    const double moved = layers.sum(&ResultCase::bytes_moved);
    const double bound = layers.sum(&ResultCase::bound_us);
    const bool alike =
        std::ranges::all_of(layers.cases, [&](const ResultCase* one) { return one->bound_by == first.bound_by; });
    return {layers.name,
            std::to_string(first.tokens),
            bytes_text(moved),
            fmt::format("{:.0f}", moved / (layers.sums.us * 1e-6) / 1e9),
            us_text(bound),
            alike ? first.bound_by : "several",
            bound > 0 ? percent(bound / layers.sums.us, 0) : "-"};
  });
  return table;
}

// Where the time of kernels goes, as far as that was asked for.
Table ablation_table(const TuningResults& results) {
  Table table{.title = "Kernels without a part (what overlaps is hidden: differences do not add up)",
              .columns = {"weight", ">N", "choice", ">full us", ">no decode us", ">no multiply us", ">copy only us",
                          ">roofline us"}};
  for (const ResultCase& one : results.cases) {
    const ResultCase::Ablation& times = one.ablation;
    if (times.full_us <= 0) continue;
    table.add(one.weight, one.tokens, one.family, us_text(times.full_us), us_text(times.no_decode_us),
              us_text(times.no_multiply_us), us_text(times.copy_only_us), us_text(one.bound_us));
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
  Figure figure{
      .title = fmt::format("{}: predicted against measured", candidates ? "Candidates" : "Choices"),
      .caption = fmt::format("Each {}. On the line the cost model is right; above it, it was too hopeful.",
                             candidates ? "candidate that was timed" : "choice; the results name no other candidates"),
      .x = {.label = "predicted, us", .scale = Scale::kLog},
      .y = {.label = "measured, us", .scale = Scale::kLog}};
  Table table{.title = "Measured over predicted", .columns = {"family", ">count", ">geometric mean", ">10 %", ">90 %"}};
  std::map<std::string, std::vector<double>> ratios;
  std::map<std::string, Series> families;
  double least = predictions.front().us;
  double most = least;
  for (const Prediction& one : predictions) {
    points_of(one.family, families)
        .add(one.predicted_us, one.us,
             fmt::format("{}: predicted {:.2f} us, measured {:.2f} us", one.label, one.predicted_us, one.us));
    ratios[one.family].push_back(one.us / one.predicted_us);
    least = std::min({least, one.us, one.predicted_us});
    most = std::max({most, one.us, one.predicted_us});
  }
  figure.add({.name = "measured as predicted",
              .colour = Colour::kNeutral,
              .dashed = true,
              .x = {least, most},
              .y = {least, most}});
  for (auto& [family, series] : families) {
    figure.add(std::move(series));
    std::vector<double>& all = ratios[family];
    std::ranges::sort(all);
    table.add(family, all.size(), times_text(geometric_mean(all)), times_text(all[all.size() / 10]),
              times_text(all[all.size() - 1 - all.size() / 10]));
  }
  return {.figures = {std::move(figure)}, .table = std::move(table)};
}

// One case on its way to the choice.
Figure trace_of(const ResultCase& one) {
  Figure figure{.title = fmt::format("{}, N = {}", one.weight, one.tokens),
                .x = {.label = "candidate, in the order of trial"},
                .y = {.label = one.measured ? "time, us" : "predicted time, us", .scale = Scale::kLog}};
  Series best{.kind = Series::Kind::kSteps, .name = "best so far", .colour = Colour::kNeutral};
  std::map<std::string, Series> families;
  for (std::size_t i = 0; i < one.tried.size(); ++i) {
    const auto& [config, predicted_us, us] = one.tried[i];
    if (us <= 0) continue;
    points_of(family_of(config), families).add(i + 1, us, fmt::format("{}: {:.2f} us", config, us));
    best.add(i + 1, best.y.empty() ? us : std::min(best.y.back(), us));
  }
  figure.add(std::move(best));
  for (auto& [family, series] : families) figure.add(std::move(series));
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
  const auto add = [](Series& series, const ResultCase& one, double bytes) {
    series.add(one.sparsity, bytes / one.dense_bytes, fmt::format("{}: {}", one.weight, bytes_text(bytes)));
  };
  std::set<std::string> with_cusparse;
  for (const ResultCase& one : results.cases)
    if (one.cusparse_bytes > 0 && one.dense_bytes > 0 && with_cusparse.insert(one.weight).second)
      add(cusparse, one, one.cusparse_bytes);
  std::vector<ResultCase> weights;
  for (const ResultCase* one : first_cases(results.cases)) {
    if (one->dense_bytes <= 0) continue;
    add(ours, *one, one->gpu_bytes);
    weights.push_back(*one);
    weights.back().tokens = 0;  // of all N
  }
  Table table{.title = "Bytes on the GPU", .columns = {"weights", ">layers", ">zeros", ">dense", ">chosen", ">share"}};
  add_folded(table, folded_layers(weights), [](const Layers& layers) -> std::vector<std::string> {
    const double dense = layers.sum(&ResultCase::dense_bytes);
    const double chosen = layers.sum(&ResultCase::gpu_bytes);
    return {layers.name,        std::to_string(layers.cases.size()),  layers.zeros(), bytes_text(dense),
            bytes_text(chosen), fmt::format("{:.3f}", chosen / dense)};
  });
  figure.add(std::move(cusparse));
  figure.add(std::move(ours));
  block.table = std::move(table);
  return block;
}

Table most_frequent(const std::map<std::string, double>& counts, const char* title, const char* what) {
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [reason, count] : counts) sorted.emplace_back(count, reason);
  std::ranges::sort(sorted, std::greater<>());
  if (sorted.size() > kReasons) sorted.resize(kReasons);
  Table table{.title = title, .columns = {what, ">count"}};
  for (const auto& [count, reason] : sorted) table.add(reason, fmt::format("{:.0f}", count));
  return table;
}

Block effort_block(const TuningResults& results) {
  Figure figure{.title = "Where the time went",
                .x = {.label = "part of the run", .scale = Scale::kCategories},
                .y = {.label = "seconds", .low = 0}};
  Series bars{.kind = Series::Kind::kBars};
  for (const auto& [part, seconds] : results.seconds) {
    bars.add(figure.x.categories.size(), seconds, fmt::format("{}: {:.2f} s", part, seconds));
    figure.x.categories.push_back(part);
  }
  figure.add(std::move(bars));
  Block block{.figures = {std::move(figure)}};
  if (!results.cuts.empty()) block.table = most_frequent(results.cuts, "Configs that a rule left out", "rule");
  return block;
}

}  // namespace

std::vector<Section> tuning_sections(const TuningResults& results) {
  std::vector<Section> sections = {tuning_card(results)};
  if (results.cases.empty()) return sections;
  const auto add = [&](Section section) {
    section.below = true;
    if (!section.blocks.empty()) sections.push_back(std::move(section));
  };
  Section layers{.title = "Layers", .text = "Weights of one shape whose names differ in numbers alone are one row."};
  layers.add({.table = layers_table(results.cases)});
  add(std::move(layers));

  Section bound{.title = "Roofline"};
  bound.add({.figures = {roofline(results)}, .table = bandwidth_table(results)});
  bound.add({.table = ablation_table(results)});
  add(std::move(bound));

  Section bytes{.title = "Bytes"};
  if (std::ranges::any_of(results.cases, [](const ResultCase& one) { return one.dense_bytes > 0; }))
    bytes.add(bytes_block(results));
  add(std::move(bytes));

  Section search{.title = "Search"};
  const std::vector<Prediction> predictions = predictions_of(results);
  const bool has_candidates =
      std::ranges::any_of(results.cases, [](const ResultCase& one) { return !one.tried.empty(); });
  if (!predictions.empty()) search.add(predictions_block(predictions, has_candidates));
  search.add(traces_block(results));
  constexpr double kWorthAFigure = 0.1;  // seconds: what the cache answers takes less
  if (std::ranges::any_of(results.seconds, [](const auto& part) { return part.second >= kWorthAFigure; }))
    search.add(effort_block(results));
  search.add({.table = most_frequent(results.rejections, "Rejected candidates", "reason")});
  add(std::move(search));
  return sections;
}

}  // namespace sparsmith::tools
