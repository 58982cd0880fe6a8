#include "tools/report/suite_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kTimeFigures = 6;
constexpr std::size_t kSparsityLevels = 12;
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
  Figure figure;
  figure.title = "Speed-up over dense against sparsity";
  figure.caption =
      "cuBLASLt's time over ours, each a median of the same run. Below the line dense is faster; points on it are "
      "weights that stay dense.";
  figure.x = {.label = "zeros", .scale = Scale::kSparsity};
  figure.y = {.label = "dense time over ours", .scale = Scale::kLog};
  int colour = 0;
  for (const std::int64_t tokens : tokens_of(cases)) {
    Series series{.kind = Series::Kind::kPoints, .name = fmt::format("N = {}", tokens)};
    series.colour = static_cast<Colour>(colour++ % kColours);
    for (const ResultCase& one : cases) {
      if (one.tokens != tokens || one.cublas_us <= 0 || one.us <= 0) continue;
      series.x.push_back(one.sparsity);
      series.y.push_back(one.cublas_us / one.us);
      series.labels.push_back(fmt::format("{}, dense {:.2f} us", case_text(one), one.cublas_us));
    }
    if (!series.x.empty()) figure.series.push_back(std::move(series));
  }
  figure.rules.push_back({.text = "1×", .y = 1});
  return figure;
}

HtmlTable speedup_table(const std::vector<ResultCase>& cases) {
  HtmlTable table;
  table.title = "Geometric means of speed-ups over libraries (cases)";
  table.columns = {{"N or operator"}};
  for (const Peer& peer : kPeers) table.columns.push_back({peer.name, true});
  table.columns.push_back({"the least over the best", true});
  const auto add = [&](const std::string& title, const std::vector<ResultCase>& some) {
    std::vector<std::string> row = {title};
    double worst = 0;
    for (const Peer& peer : kPeers) {
      const std::vector<double> ratios = speedups_over(peer, some);
      row.push_back(ratios.empty() ? "-" : fmt::format("{} ({})", times_text(geometric_mean(ratios)), ratios.size()));
      worst = ratios.empty() ? 0 : ratios.front();
    }
    row.push_back(worst > 0 ? times_text(worst) : "-");
    table.rows.push_back(std::move(row));
  };
  for (const std::int64_t tokens : tokens_of(cases)) {
    std::vector<ResultCase> some;
    std::ranges::copy_if(cases, std::back_inserter(some), [&](const ResultCase& one) { return one.tokens == tokens; });
    add(std::to_string(tokens), some);
  }
  std::map<std::string, std::vector<ResultCase>> by_operator;
  for (const ResultCase& one : cases) by_operator[one.operator_name].push_back(one);
  if (by_operator.size() > 1) {
    for (const auto& [name, some] : by_operator) add(name, some);
  }
  add("all", cases);
  return table;
}

Figure speedup_distribution(const std::vector<ResultCase>& cases) {
  Figure figure;
  figure.title = "Distribution of speed-ups";
  figure.caption =
      "Share of cases whose speed-up is at most that of the horizontal axis (empirical distribution). Left of 1× the "
      "peer is faster.";
  figure.x = {.label = "peer's time over ours", .scale = Scale::kLog};
  figure.y = {.label = "cases up to here, %", .low = 0, .high = 100};
  figure.rules.push_back({.text = "1×", .x = 1});
  for (const Peer& peer : kPeers) {
    const std::vector<double> ratios = speedups_over(peer, cases);
    if (ratios.empty()) continue;
    Series series{.kind = Series::Kind::kSteps, .colour = peer.colour, .dashed = peer.colour != Colour::kBlue};
    series.name = fmt::format("over {}, geometric mean {}", peer.name, times_text(geometric_mean(ratios)));
    series.x.push_back(ratios.front());
    series.y.push_back(0);
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      series.x.push_back(ratios[i]);
      series.y.push_back(100 * static_cast<double>(i + 1) / static_cast<double>(ratios.size()));
    }
    figure.series.push_back(std::move(series));
    // The mean, where it meets its curve.
    const double mean = geometric_mean(ratios);
    const auto below = std::ranges::upper_bound(ratios, mean) - ratios.begin();
    figure.notes.push_back(
        {mean, 100 * static_cast<double>(below) / static_cast<double>(ratios.size()), times_text(mean)});
  }
  return figure;
}

// The slowest cases beside their best peer.
HtmlTable worst_cases(const std::vector<ResultCase>& cases) {
  constexpr std::size_t kShown = 12;
  std::vector<const ResultCase*> sorted;
  for (const ResultCase& one : cases) {
    if (one.us > 0 && one.best_peer_us() > 0) sorted.push_back(&one);
  }
  std::ranges::sort(sorted, {}, [](const ResultCase* one) { return one->best_peer_us() / one->us; });
  HtmlTable table;
  table.title = "The least speed-ups over the best of both";
  table.columns = {{"weight"}, {"zeros", true}, {"N", true}, {"choice"}, {"us", true}, {"ratio", true}};
  for (std::size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
    const ResultCase& one = *sorted[i];
    table.rows.push_back({one.weight, fmt::format("{:.1f} %", 100 * one.sparsity), std::to_string(one.tokens),
                          one.family, fmt::format("{:.2f}", one.us), times_text(one.best_peer_us() / one.us)});
  }
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
  Figure figure;
  figure.title = "Who is fastest where";
  figure.caption = fmt::format(
      "In each cell: the time of the best library over ours, geometric mean. Closer than {:.0f} % is a tie; dense "
      "stays "
      "where it was chosen for at least half of the cases.",
      100 * kTie);
  figure.x = {.label = "zeros", .scale = Scale::kCategories};
  for (const double level : levels) figure.x.categories.push_back(fmt::format("{:.4g} %", 100 * level));
  figure.y = {.label = "tokens N", .scale = Scale::kCategories};
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
    series.x.push_back(static_cast<double>(position.first));
    series.y.push_back(static_cast<double>(position.second));
    series.labels.push_back(fmt::format("{:.2f}", mean));
  }
  for (Series* series : {&ours, &tie, &dense, &peer}) {
    if (!series->x.empty()) figure.series.push_back(std::move(*series));
  }
  return figure;
}

HtmlTable chosen_families(const std::vector<ResultCase>& cases) {
  std::map<std::string, std::map<std::int64_t, int>> counts;
  for (const ResultCase& one : cases) ++counts[one.family][one.tokens];
  HtmlTable table;
  table.title = "Chosen families, cases per N";
  table.columns = {{"family"}};
  for (const std::int64_t tokens : tokens_of(cases)) table.columns.push_back({fmt::format("N = {}", tokens), true});
  for (const auto& [family, by_tokens] : counts) {
    std::vector<std::string> row = {family};
    for (const std::int64_t tokens : tokens_of(cases)) {
      const auto found = by_tokens.find(tokens);
      row.push_back(found == by_tokens.end() ? "" : std::to_string(found->second));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Series time_series(const WeightCases& group, const std::string& name, Colour colour, bool dashed,
                   double (*us)(const ResultCase&)) {
  Series series{.kind = Series::Kind::kLine, .name = name, .colour = colour, .dashed = dashed};
  for (const ResultCase* one : group.cases) {
    if (us(*one) <= 0) continue;
    series.x.push_back(static_cast<double>(one->tokens));
    series.y.push_back(us(*one));
    series.labels.push_back(fmt::format("{} at N = {}: {:.2f} us", name, one->tokens, us(*one)));
  }
  return series;
}

Figure time_against_tokens(const WeightCases& group) {
  const ResultCase& first = *group.cases.front();
  Figure figure;
  figure.title = fmt::format("{} × {}, {:.4g} % zeros", first.rows, first.cols, 100 * group.sparsity);
  figure.caption = fmt::format("{}, {}", group.weight, first.operator_name);
  figure.x = {.label = "tokens N", .scale = Scale::kLog};
  for (const ResultCase* one : group.cases) figure.x.ticks.push_back(static_cast<double>(one->tokens));
  figure.y = {.label = "time, us", .scale = Scale::kLog};
  figure.series = {time_series(group, "sparsmith", Colour::kBlue, false, [](const ResultCase& one) { return one.us; }),
                   time_series(group, "cuBLAS (dense)", Colour::kVermillion, true, kPeers[0].us),
                   time_series(group, "cuSPARSE", Colour::kGreen, true, kPeers[1].us)};
  std::erase_if(figure.series, [](const Series& series) { return series.x.empty(); });
  const double crossover = crossover_tokens(group.cases);
  if (crossover > 0) figure.rules.push_back({.text = fmt::format("N = {:.3g}", crossover), .x = crossover});
  return figure;
}

Block times_block(const std::vector<ResultCase>& cases) {
  std::vector<WeightCases> groups = by_weight(cases);
  std::erase_if(groups, [](const WeightCases& group) { return group.cases.size() < 2; });
  Block block;
  if (groups.empty()) return block;
  block.text =
      "Time against the number of tokens, with the N from which dense is as fast or is kept, where there is one.";
  for (const WeightCases& group : evenly(groups, kTimeFigures)) block.figures.push_back(time_against_tokens(group));
  HtmlTable table;
  table.title = "From which N dense is as fast, or is kept";
  table.columns = {{"weight"},
                   {"shape", true},
                   {"zeros", true},
                   {"operator"},
                   {"N", true},
                   {"speed-up at the least N", true},
                   {"at the largest", true}};
  for (const WeightCases& group : groups) {
    const ResultCase& least = *group.cases.front();
    const ResultCase& largest = *group.cases.back();
    const double crossover = crossover_tokens(group.cases);
    const auto ratio = [](const ResultCase& one) {
      return one.cublas_us > 0 && one.us > 0 ? times_text(one.cublas_us / one.us) : "-";
    };
    table.rows.push_back(
        {group.weight, fmt::format("{} × {}", least.rows, least.cols), fmt::format("{:.4g} %", 100 * group.sparsity),
         least.operator_name, crossover > 0 ? fmt::format("{:.3g}", crossover) : "none measured",
         fmt::format("{} at {}", ratio(least), least.tokens), fmt::format("{} at {}", ratio(largest), largest.tokens)});
  }
  block.table = std::move(table);
  return block;
}

}  // namespace

double crossover_tokens(const std::vector<const ResultCase*>& cases) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ResultCase& here = *cases[i];
    if (here.cublas_us <= 0 || here.us <= 0) continue;
    const double gap = std::log(here.cublas_us / here.us);
    if (here.dense()) return static_cast<double>(here.tokens);
    if (i == 0) continue;
    const ResultCase& before = *cases[i - 1];
    if (before.cublas_us <= 0 || before.us <= 0) continue;
    const double gap_before = std::log(before.cublas_us / before.us);
    if (gap_before <= 0 || gap > 0) continue;
    const double from = std::log(static_cast<double>(before.tokens));
    const double part = gap_before / (gap_before - gap);
    return std::exp(from + part * (std::log(static_cast<double>(here.tokens)) - from));
  }
  return 0;
}

Section suite_section(const std::string& device, const std::vector<ResultCase>& cases) {
  std::vector<ResultCase> compared;
  std::ranges::copy_if(cases, std::back_inserter(compared),
                       [](const ResultCase& one) { return one.us > 0 && one.best_peer_us() > 0; });
  Section section;
  section.title = fmt::format("Speed-ups on {}", device);
  section.text = fmt::format("{} measured cases with a library beside them in the same run; {} have none.",
                             compared.size(), cases.size() - compared.size());
  if (compared.empty()) return section;
  const bool dense_known = std::ranges::any_of(compared, [](const ResultCase& one) { return one.cublas_us > 0; });
  if (dense_known)
    section.blocks.push_back({.figures = {speedup_against_sparsity(compared)}, .table = speedup_table(compared)});
  section.blocks.push_back({.figures = {speedup_distribution(compared)}, .table = worst_cases(compared)});
  section.blocks.push_back({.figures = {phase_diagram(compared)}, .table = chosen_families(compared)});
  Block times = times_block(compared);
  if (!times.figures.empty()) section.blocks.push_back(std::move(times));
  return section;
}

}  // namespace sparsmith::tools
