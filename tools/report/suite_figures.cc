#include "tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kTimeFigures = 6;
constexpr std::size_t kSparsityLevels = 12;
constexpr std::size_t kWeightsSideBySide = 24;
constexpr double kTie = 0.02;  // closer than that to the best peer is neither faster nor slower

// Speed-ups over one peer.
struct Peer {
  const char* name;
  Colour colour;
  double (*us)(const ResultCase&);
};

const Peer kPeers[] = {{"cuBLAS (dense)", Colour::kVermillion, [](const ResultCase& one) { return one.cublas_us; }},
                       {"cuSPARSE", Colour::kGreen, [](const ResultCase& one) { return one.cusparse_us; }},
                       {"the best of both", Colour::kBlue, [](const ResultCase& one) { return one.best_peer_us(); }}};

std::vector<double> speedups_over(const Peer& peer, const std::vector<ResultCase>& cases) {
  std::vector<double> ratios;
  for (const ResultCase& one : cases) {
    if (one.us > 0 && peer.us(one) > 0) ratios.push_back(peer.us(one) / one.us);
  }
  std::ranges::sort(ratios);
  return ratios;
}

std::set<std::int64_t> tokens_of(const std::vector<ResultCase>& cases) {
  std::set<std::int64_t> tokens;
  for (const ResultCase& one : cases) tokens.insert(one.tokens);
  return tokens;
}

Figure speedup_against_sparsity(const std::vector<ResultCase>& cases) {
  Figure figure{.title = "Speed-up over dense against sparsity",
                .caption =
                    "cuBLASLt's time over ours, each a median of the same run. Below the line dense is faster; "
                    "points on it are weights that stay dense.",
                .x = {.label = "zeros", .scale = Scale::kSparsity},
                .y = {.label = "dense time over ours", .scale = Scale::kLog},
                .rules = {{.text = "1x", .y = 1}}};
  std::size_t colour = 0;
  for (const std::int64_t tokens : tokens_of(cases)) {
    Series series{.kind = Series::Kind::kPoints, .name = fmt::format("N = {}", tokens), .colour = colour_of(colour++)};
    for (const ResultCase& one : cases) {
      if (one.tokens != tokens || one.speedup() <= 0) continue;
      series.add(one.sparsity, one.speedup(), fmt::format("{}, dense {:.2f} us", case_text(one), one.cublas_us));
    }
    figure.add(std::move(series));
  }
  return figure;
}

Table speedup_table(const std::vector<ResultCase>& cases) {
  Table table{.title = "Geometric means of speed-ups over libraries (cases)", .columns = {"N or operator"}};
  for (const Peer& peer : kPeers) table.columns.push_back(std::string(">") + peer.name);
  table.columns.emplace_back(">the least over the best");
  const auto add = [&](const std::string& title, const auto& wanted) {
    std::vector<ResultCase> some;
    std::ranges::copy_if(cases, std::back_inserter(some), wanted);
    std::vector<std::string> row = {title};
    double worst = 0;
    for (const Peer& peer : kPeers) {
      const std::vector<double> ratios = speedups_over(peer, some);
      row.push_back(ratios.empty() ? "-" : fmt::format("{} ({})", times_text(geometric_mean(ratios)), ratios.size()));
      worst = ratios.empty() ? 0 : ratios.front();
    }
    row.push_back(times_text(worst));
    table.rows.push_back(std::move(row));
  };
  for (const std::int64_t tokens : tokens_of(cases))
    add(std::to_string(tokens), [&](const ResultCase& one) { return one.tokens == tokens; });
  std::set<std::string> operators;
  for (const ResultCase& one : cases) operators.insert(one.operator_name);
  if (operators.size() > 1) {
    for (const std::string& name : operators)
      add(name, [&](const ResultCase& one) { return one.operator_name == name; });
  }
  add("all", [](const ResultCase&) { return true; });
  return table;
}

Figure speedup_distribution(const std::vector<ResultCase>& cases) {
  Figure figure{.title = "Distribution of speed-ups",
                .caption =
                    "Share of cases whose speed-up is at most that of the horizontal axis (empirical "
                    "distribution). Left of 1x the peer is faster.",
                .x = {.label = "peer's time over ours", .scale = Scale::kLog},
                .y = {.label = "cases up to here, %", .low = 0, .high = 100},
                .rules = {{.text = "1x", .x = 1}}};
  for (const Peer& peer : kPeers) {
    const std::vector<double> ratios = speedups_over(peer, cases);
    if (ratios.empty()) continue;
    const double mean = geometric_mean(ratios);
    const auto share = [&](auto up_to) {
      return 100 * static_cast<double>(up_to) / static_cast<double>(ratios.size());
    };
    Series series{.kind = Series::Kind::kSteps,
                  .name = fmt::format("over {}, geometric mean {}", peer.name, times_text(mean)),
                  .colour = peer.colour,
                  .dashed = peer.colour != Colour::kBlue};
    series.add(ratios.front(), 0);
    for (std::size_t i = 0; i < ratios.size(); ++i) series.add(ratios[i], share(i + 1));
    figure.add(std::move(series));
    // The mean, where it meets its curve.
    figure.notes.push_back({mean, share(std::ranges::upper_bound(ratios, mean) - ratios.begin()), times_text(mean)});
  }
  return figure;
}

// The slowest cases beside their best peer.
Table worst_cases(const std::vector<ResultCase>& cases) {
  constexpr std::size_t kShown = 12;
  const auto ratio = [](const ResultCase* one) { return one->best_peer_us() / one->us; };
  std::vector<const ResultCase*> sorted;
  for (const ResultCase& one : cases) {
    if (one.us > 0 && one.best_peer_us() > 0) sorted.push_back(&one);
  }
  std::ranges::sort(sorted, {}, ratio);
  if (sorted.size() > kShown) sorted.resize(kShown);
  Table table{.title = "The least speed-ups over the best of both",
              .columns = {"weight", ">zeros", ">N", "choice", ">us", ">ratio"}};
  for (const ResultCase* one : sorted)
    table.add(one->weight, percent(one->sparsity), one->tokens, one->family, us_text(one->us), times_text(ratio(one)));
  return table;
}

// The distinct levels of sparsity, or fixed ones where there are too many: names by their lower end.
std::vector<double> sparsity_levels(const std::vector<ResultCase>& cases) {
  std::set<double> levels;
  for (const ResultCase& one : cases) levels.insert(std::round(one.sparsity * 1000) / 1000);
  if (levels.size() <= kSparsityLevels) return {levels.begin(), levels.end()};
  return {0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999};
}

// The level at or below `sparsity`, as far as three digits tell.
std::size_t level_of(double sparsity, const std::vector<double>& levels) {
  const auto above = std::ranges::upper_bound(levels, std::round(sparsity * 1000) / 1000 + 1e-9);
  return above == levels.begin() ? 0 : static_cast<std::size_t>(above - levels.begin()) - 1;
}

Figure phase_diagram(const std::vector<ResultCase>& cases) {
  const std::vector<double> levels = sparsity_levels(cases);
  const std::set<std::int64_t> tokens = tokens_of(cases);
  Figure figure{
      .title = "Who is fastest where",
      .caption = fmt::format("In each cell: the time of the best library over ours, geometric mean. Closer than "
                             "{:.0f} % is a tie; dense stays where it was chosen for at least half of the cases.",
                             100 * kTie),
      .x = {.label = "zeros", .scale = Scale::kCategories},
      .y = {.label = "tokens N", .scale = Scale::kCategories}};
  for (const double level : levels) figure.x.categories.push_back(fmt::format("{:.4g} %", 100 * level));
  for (const std::int64_t one : tokens) figure.y.categories.push_back(std::to_string(one));

  struct Cell {
    std::vector<double> ratios;
    int dense = 0;
  };
  std::map<std::pair<std::size_t, std::size_t>, Cell> cells;
  for (const ResultCase& one : cases) {
    if (one.us <= 0 || one.best_peer_us() <= 0) continue;
    const auto row = static_cast<std::size_t>(std::distance(tokens.begin(), tokens.find(one.tokens)));
    Cell& cell = cells[{level_of(one.sparsity, levels), row}];
    cell.ratios.push_back(one.best_peer_us() / one.us);
    cell.dense += one.dense() ? 1 : 0;
  }
  Series ours{.kind = Series::Kind::kCells, .name = "sparsmith is faster", .colour = Colour::kBlue};
  Series tie{.kind = Series::Kind::kCells, .name = "a tie", .colour = Colour::kNeutral};
  Series dense{.kind = Series::Kind::kCells, .name = "dense stays", .colour = Colour::kVermillion};
  Series peer{.kind = Series::Kind::kCells, .name = "a library is faster", .colour = Colour::kYellow};
  for (const auto& [position, cell] : cells) {
    const double mean = geometric_mean(cell.ratios);
    Series& series = 2 * cell.dense >= static_cast<int>(cell.ratios.size()) ? dense
                     : mean > 1 + kTie                                      ? ours
                     : mean < 1 - kTie                                      ? peer
                                                                            : tie;
    series.add(position.first, static_cast<double>(position.second), fmt::format("{:.2f}", mean));
  }
  for (Series* series : {&ours, &tie, &dense, &peer}) figure.add(std::move(*series));
  return figure;
}

// The chosen family for each weight and N. Empty for many weights, and where a weight has several operators.
Figure chosen_where(const std::vector<ResultCase>& cases) {
  Figure figure{.title = "Which kernels are chosen where",
                .caption = "In each cell: the time of the best library over ours.",
                .x = {.label = "weight", .scale = Scale::kCategories},
                .y = {.label = "tokens N", .scale = Scale::kCategories}};
  const std::set<std::int64_t> tokens = tokens_of(cases);
  for (const std::int64_t one : tokens) figure.y.categories.push_back(std::to_string(one));
  std::map<std::string, std::size_t> weights;  // their places
  std::map<std::string, Series> families;
  std::set<std::pair<std::size_t, std::int64_t>> taken;
  for (const ResultCase& one : cases) {
    const auto [weight, added] = weights.try_emplace(one.weight, weights.size());
    if (added) figure.x.categories.push_back(one.weight);
    if (!taken.insert({weight->second, one.tokens}).second || weights.size() > kWeightsSideBySide) return {};
    families[one.family].add(weight->second,
                             static_cast<double>(std::distance(tokens.begin(), tokens.find(one.tokens))),
                             fmt::format("{:.2f}", one.best_peer_us() / one.us));
  }
  std::vector<Series> sorted;
  for (auto& [family, series] : families) {
    series.kind = Series::Kind::kCells;
    series.name = family;
    sorted.push_back(std::move(series));
  }
  std::ranges::stable_sort(sorted, std::greater(), [](const Series& series) { return series.x.size(); });
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sorted[i].colour = i < kColours ? colour_of(i) : Colour::kNeutral;
    figure.add(std::move(sorted[i]));
  }
  return figure;
}

Table chosen_families(const std::vector<ResultCase>& cases) {
  std::map<std::string, std::map<std::int64_t, int>> counts;
  for (const ResultCase& one : cases) ++counts[one.family][one.tokens];
  Table table{.title = "Chosen families, cases per N", .columns = {"family"}};
  for (const std::int64_t tokens : tokens_of(cases)) table.columns.push_back(fmt::format(">N = {}", tokens));
  for (auto& [family, by_tokens] : counts) {
    std::vector<std::string>& row = table.rows.emplace_back(1, family);
    for (const std::int64_t tokens : tokens_of(cases))
      row.push_back(by_tokens.contains(tokens) ? std::to_string(by_tokens[tokens]) : "");
  }
  return table;
}

// Cases of one weight and operator, in ascending order of N.
using WeightCases = std::vector<const ResultCase*>;

// In ascending order of sparsity. Weights of one case are left out.
std::vector<WeightCases> by_weight(const std::vector<ResultCase>& cases) {
  std::map<std::tuple<double, std::string, std::string>, WeightCases> groups;
  for (const ResultCase& one : cases) groups[{one.sparsity, one.weight, one.operator_name}].push_back(&one);
  std::vector<WeightCases> result;
  for (auto& [key, group] : groups) {
    std::ranges::stable_sort(group, {}, &ResultCase::tokens);
    if (group.size() > 1) result.push_back(std::move(group));
  }
  return result;
}

Series time_series(const WeightCases& group, const Peer& of) {
  Series series{.name = of.name, .colour = of.colour, .dashed = of.colour != Colour::kBlue};
  for (const ResultCase* one : group) {
    const double us = of.us(*one);
    if (us > 0) series.add(one->tokens, us, fmt::format("{} at N = {}: {:.2f} us", of.name, one->tokens, us));
  }
  return series;
}

Figure time_against_tokens(const WeightCases& group) {
  const ResultCase& first = *group.front();
  Figure figure{.title = fmt::format("{}, {:.4g} % zeros", shape_text(first.rows, first.cols), 100 * first.sparsity),
                .caption = fmt::format("{}, {}", first.weight, first.operator_name),
                .x = {.label = "tokens N", .scale = Scale::kLog},
                .y = {.label = "time, us", .scale = Scale::kLog}};
  for (const ResultCase* one : group) figure.x.ticks.push_back(static_cast<double>(one->tokens));
  const Peer ours{"sparsmith", Colour::kBlue, [](const ResultCase& one) { return one.us; }};
  for (const Peer& each : {ours, kPeers[0], kPeers[1]}) figure.add(time_series(group, each));
  const double crossover = crossover_tokens(group);
  if (crossover > 0) figure.rules.push_back({.text = fmt::format("N = {:.3g}", crossover), .x = crossover});
  return figure;
}

Block times_block(const std::vector<ResultCase>& cases) {
  const std::vector<WeightCases> groups = by_weight(cases);
  Block block;
  if (groups.empty()) return block;
  block.text =
      "Time against the number of tokens, with the N from which dense is as fast or is kept, where there is one.";
  const std::size_t figures = std::min(kTimeFigures, groups.size());
  for (std::size_t i = 0; i < figures; ++i)  // evenly spaced over all
    block.figures.push_back(
        time_against_tokens(groups[figures < kTimeFigures ? i : i * (groups.size() - 1) / (figures - 1)]));
  Table table{
      .title = "From which N dense is as fast, or is kept",
      .columns = {"weight", ">shape", ">zeros", "operator", ">N", ">speed-up at the least N", ">at the largest"}};
  for (const WeightCases& group : groups) {
    const ResultCase& least = *group.front();
    const ResultCase& largest = *group.back();
    const double crossover = crossover_tokens(group);
    table.add(least.weight, shape_text(least.rows, least.cols), fmt::format("{:.4g} %", 100 * least.sparsity),
              least.operator_name, crossover > 0 ? fmt::format("{:.3g}", crossover) : "none measured",
              fmt::format("{} at {}", times_text(least.speedup()), least.tokens),
              fmt::format("{} at {}", times_text(largest.speedup()), largest.tokens));
  }
  block.table = std::move(table);
  return block;
}

}  // namespace

double crossover_tokens(const std::vector<const ResultCase*>& cases) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ResultCase& here = *cases[i];
    if (here.speedup() <= 0) continue;
    if (here.dense()) return static_cast<double>(here.tokens);
    if (i == 0 || cases[i - 1]->speedup() <= 1 || here.speedup() > 1) continue;
    const double gap_before = std::log(cases[i - 1]->speedup());
    const double from = std::log(static_cast<double>(cases[i - 1]->tokens));
    const double part = gap_before / (gap_before - std::log(here.speedup()));
    return std::exp(from + part * (std::log(static_cast<double>(here.tokens)) - from));
  }
  return 0;
}

Section suite_section(const std::string& device, const std::vector<ResultCase>& cases) {
  std::vector<ResultCase> compared;
  std::ranges::copy_if(cases, std::back_inserter(compared),
                       [](const ResultCase& one) { return one.us > 0 && one.best_peer_us() > 0; });
  Section section{
      .title = fmt::format("Speed-ups on {}", device),
      .text = fmt::format(
          "{} measured cases with a library beside them in the same run; {} have none. Means are geometric.",
          compared.size(), cases.size() - compared.size())};
  if (compared.empty()) return section;
  section.card = Card{};
  for (const Peer& peer : kPeers) {
    const std::vector<double> ratios = speedups_over(peer, compared);
    if (ratios.empty()) continue;
    section.card->facts.push_back(
        {fmt::format("over {}", peer.name), times_text(geometric_mean(ratios)),
         fmt::format("mean of {} cases, the least {}", ratios.size(), times_text(ratios[0]))});
  }
  const bool dense_known = std::ranges::any_of(compared, [](const ResultCase& one) { return one.cublas_us > 0; });
  if (dense_known)
    section.blocks.push_back({.figures = {speedup_against_sparsity(compared)}, .table = speedup_table(compared)});
  section.blocks.push_back({.figures = {speedup_distribution(compared)}, .table = worst_cases(compared)});
  section.blocks.push_back({.figures = {phase_diagram(compared)}, .table = chosen_families(compared)});
  Figure chosen = chosen_where(compared);
  if (!chosen.series.empty()) section.blocks.push_back({.figures = {std::move(chosen)}});
  section.add(times_block(compared));
  return section;
}

}  // namespace sparsmith::tools
