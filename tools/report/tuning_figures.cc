#include "tools/report/sections.h"

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

// The family's points among those of all families.
Series& points_of(const std::string& family, std::map<std::string, Series>& families) {
  const Series none{.kind = Series::Kind::kPoints, .name = family, .colour = colour_of_family(family)};
  return families.try_emplace(family, none).first->second;
}

Table choice_table(const TuningResults& results) {
  Table table{.title = "Choices",
              .columns = {"weight", ">shape", ">zeros", ">N", "choice", ">GPU bytes", ">us", ">dense", ">speed-up",
                          "evidence"}};
  for (const ResultCase& one : results.cases) {
    table.add(one.weight, shape_text(one.rows, one.cols), percent(one.sparsity), one.tokens, one.family,
              bytes_text(one.packed_bytes), fmt::format("{:.2f}", one.us),
              us_text(one.speedup() > 0 ? one.cublas_us : 0), times_text(one.speedup()),
              one.measured ? "measured" : "predicted");
  }
  return table;
}

// Operations of W X over the bytes that it moves at least, against operations a second (S. Williams, A. Waterman,
// D. Patterson, "Roofline", CACM 52(4), 2009).
Figure roofline(const TuningResults& results) {
  Figure figure{
      .title = "Roofline",
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
  Table table{
      .title = "Bytes moved, and what of the roofline is reached",
      .columns = {"weight", ">N", "choice", ">packed", ">moved", ">GB/s", ">roofline us", "bound by", ">reached"}};
  for (const ResultCase& one : results.cases) {
    if (one.bytes_moved <= 0 || one.us <= 0) continue;
    // Results without a bound, as tuned files, are older or know no more than the bytes.
    const bool stated = one.bound_us > 0;
    const double memory_us = results.memory_bandwidth > 0 ? one.bytes_moved / results.memory_bandwidth * 1e6 : 0;
    const double bound = stated ? one.bound_us : memory_us;
    table.add(one.weight, one.tokens, one.family, bytes_text(one.packed_bytes), bytes_text(one.bytes_moved),
              fmt::format("{:.0f}", one.bytes_moved / (one.us * 1e-6) / 1e9), us_text(bound),
              bound <= 0 ? "-"
              : stated   ? one.bound_by
                         : "memory",
              bound > 0 ? percent(bound / one.us, 0) : "-");
  }
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
  Table table{.title = "Bytes on the GPU", .columns = {"weight", ">zeros", ">dense", ">chosen", ">share"}};
  const auto text = [](double bytes) { return human_bytes(std::llround(bytes)); };
  for (const WeightBytes& one : results.bytes) {
    ours.add(one.sparsity, one.chosen / one.dense, fmt::format("{}: {}", one.weight, text(one.chosen)));
    if (one.cusparse > 0)
      cusparse.add(one.sparsity, one.cusparse / one.dense, fmt::format("{}: {}", one.weight, text(one.cusparse)));
    table.add(one.weight, percent(one.sparsity, 2), text(one.dense), text(one.chosen),
              fmt::format("{:.3f}", one.chosen / one.dense));
  }
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

Section tuning_section(const TuningResults& results) {
  Section section{.title = fmt::format("Tuning: {}", results.source)};
  const auto measured = std::ranges::count_if(results.cases, &ResultCase::measured);
  section.text = fmt::format("{}: {} choices, {}.", results.device, results.cases.size(),
                             measured == static_cast<std::ptrdiff_t>(results.cases.size()) ? "all measured"
                             : measured == 0 ? "PREDICTED, none of them measured"
                                             : fmt::format("{} of them measured, the others PREDICTED", measured));
  if (results.cases.empty()) return section;
  section.blocks.push_back({.table = choice_table(results)});
  section.add({.figures = {roofline(results)}, .table = bandwidth_table(results)});
  section.add({.table = ablation_table(results)});
  const std::vector<Prediction> predictions = predictions_of(results);
  const bool has_candidates =
      std::ranges::any_of(results.cases, [](const ResultCase& one) { return !one.tried.empty(); });
  if (!predictions.empty()) section.blocks.push_back(predictions_block(predictions, has_candidates));
  section.add(traces_block(results));
  if (!results.bytes.empty()) section.blocks.push_back(bytes_block(results));
  if (!results.seconds.empty()) section.blocks.push_back(effort_block(results));
  if (!results.rejections.empty())
    section.blocks.push_back({.table = most_frequent(results.rejections, "Rejected candidates", "reason")});
  return section;
}

}  // namespace sparsmith::tools
