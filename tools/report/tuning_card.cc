#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "tools/report/layers.h"
#include "tools/report/sections.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kShownTokens = 4;  // columns with bars
constexpr std::size_t kShownGroups = 16;

// "1.23 → 0.402 ms"; without a time of dense "0.402 ms".
std::string change_of(const Sums& sums) {
  const TimeUnit unit = time_unit(std::max(sums.us, sums.dense_us));
  const std::string tuned = fmt::format("{:.3g} {}", sums.us / unit.microseconds, unit.name);
  return sums.dense_us > 0 ? fmt::format("{:.3g} → {}", sums.dense_us / unit.microseconds, tuned) : tuned;
}

std::string evidence_of(const TuningResults& results) {
  const auto measured = std::ranges::count_if(results.cases, &ResultCase::measured);
  const auto all = static_cast<std::ptrdiff_t>(results.cases.size());
  const auto device = [&](const char* word) { return results.device.empty() ? "" : word + results.device; };
  if (measured == all) return "measured" + device(" on ");
  if (measured > 0)
    return fmt::format("{} of {} choices measured{}, the others PREDICTED", measured, all, device(" on "));
  return fmt::format("PREDICTED{}, not measured", device(" for "));
}

// Why dense stays, in the words of `show --why`.
std::string short_reason(const std::string& reason) {
  if (reason.find("memory bound") != std::string::npos) return "no faster packing fits the memory bound";
  if (reason.find("no sparse candidate passed") != std::string::npos) return "no sparse kernel passed";
  return "no sparse kernel is faster";
}

std::vector<std::string> verdicts_of(const std::vector<ResultCase>& cases) {
  std::map<std::string, bool> gains;  // by weight
  std::map<std::string, int> reasons;
  std::size_t dense = 0;
  for (const ResultCase& one : cases) {
    gains[one.weight] |= !one.dense();
    if (!one.dense()) continue;
    ++dense;
    ++reasons[short_reason(one.reason)];
  }
  const auto gaining = std::ranges::count_if(gains, [](const auto& each) { return each.second; });
  std::vector<std::string> lines = {fmt::format("{} of {} weights gain at one N or more.", gaining, gains.size())};
  if (dense == 0) return lines;
  std::vector<std::string> parts;
  for (const auto& [reason, count] : reasons)
    parts.push_back(reasons.size() == 1 ? reason : fmt::format("{} ({})", reason, count));
  lines.push_back(fmt::format("Dense stays in {} of {} choices, each a weight at one N: {}.", dense, cases.size(),
                              fmt::join(parts, "; ")));
  return lines;
}

Card card_of(const TuningResults& results) {
  Card card{.tag = evidence_of(results)};
  card.warns = !std::ranges::all_of(results.cases, &ResultCase::measured);
  double dense_bytes = 0;
  double bytes = 0;
  for (const ResultCase* one : first_cases(results.cases)) {
    dense_bytes += one->dense_bytes;
    bytes += one->gpu_bytes;
  }
  if (dense_bytes > 0 && bytes > 0) {
    card.facts.push_back({"GPU memory", fmt::format("{} → {}", bytes_text(dense_bytes), bytes_text(bytes)),
                          fmt::format("{:.2f}x the bytes of dense", bytes / dense_bytes)});
  }
  const auto add = [&](std::string name, const Sums& sums) {
    const std::string ratio = sums.dense_us > 0 ? ratio_text(sums.dense_us, sums.us) + ", " : "";
    card.facts.push_back({std::move(name), change_of(sums),
                          fmt::format("{}{} of {} faster", ratio, sums.choices - sums.dense, sums.choices)});
  };
  const std::map<std::int64_t, Sums> by_tokens = sums_by_tokens(results.cases);
  if (by_tokens.size() > 1) {
    Sums all;
    for (const ResultCase& one : results.cases) all.add(one);
    add("all N together", all);
  }
  for (const auto& [tokens, sums] : by_tokens) add(fmt::format("N = {}", tokens), sums);
  card.lines = verdicts_of(results.cases);
  return card;
}

// At most kShownTokens of them, evenly spaced over all.
std::vector<std::int64_t> shown_tokens(const std::vector<ResultCase>& cases) {
  std::set<std::int64_t> all;
  for (const ResultCase& one : cases) all.insert(one.tokens);
  std::vector<std::int64_t> tokens(all.begin(), all.end());
  if (tokens.size() <= kShownTokens) return tokens;
  std::vector<std::int64_t> shown;
  for (std::size_t i = 0; i < kShownTokens; ++i) shown.push_back(tokens[i * (tokens.size() - 1) / (kShownTokens - 1)]);
  return shown;
}

// A row for each group of layers, with bars for the time of dense and ours at each N.
Table bars_table(const std::vector<ResultCase>& cases) {
  const std::vector<std::int64_t> tokens = shown_tokens(cases);
  const std::vector<Layers> all = folded_layers(cases);
  std::map<std::int64_t, double> longest;
  for (const Layers& layers : all) {
    double& most = longest[layers.first().tokens];
    most = std::max({most, layers.sums.us, layers.sums.dense_us});
  }
  Table table{.title = "Time of each group of layers. Grey: dense; blue: tuned. Bars of one N share a scale.",
              .columns = {"layers", "shape"}};
  for (const std::int64_t each : tokens) table.columns.push_back(fmt::format("N = {}", each));
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::size_t> rows;
  for (const Layers& layers : all) {
    const ResultCase& first = layers.first();
    const auto column = std::ranges::find(tokens, first.tokens);
    const auto [row, is_new] = rows.try_emplace({layers.name, first.rows, first.cols}, rows.size());
    if (column == tokens.end() || row->second >= kShownGroups) continue;
    if (is_new) {
      std::vector<std::string>& cells = table.rows.emplace_back(table.columns.size());
      cells[0] = layers.cases.size() == 1 ? layers.name : fmt::format("{} ({})", layers.name, layers.cases.size());
      cells[1] = fmt::format("{}x{}", first.rows, first.cols);
    }
    const std::size_t at = 2 + static_cast<std::size_t>(column - tokens.begin());
    const Sums& sums = layers.sums;
    table.rows[row->second][at] =
        change_of(sums) + (sums.dense_us > 0 ? ", " + ratio_text(sums.dense_us, sums.us) : "");
    if (longest[first.tokens] > 0)
      table.bars[{row->second, at}] = {sums.dense_us / longest[first.tokens], sums.us / longest[first.tokens]};
  }
  if (rows.size() > kShownGroups)
    table.title += fmt::format(" The first {} of {} groups; all are below.", kShownGroups, rows.size());
  return table;
}

}  // namespace

std::vector<const ResultCase*> first_cases(const std::vector<ResultCase>& cases) {
  std::set<std::string> seen;
  std::vector<const ResultCase*> firsts;
  for (const ResultCase& one : cases)
    if (seen.insert(one.weight).second) firsts.push_back(&one);
  return firsts;
}

Section tuning_card(const TuningResults& results) {
  Section section{.title = "Results of " + file_name(results.source)};
  if (results.cases.empty()) {
    section.text = "No weight was tuned.";
    return section;
  }
  section.card = card_of(results);
  section.text = source_text(results.source);
  section.add({.table = bars_table(results.cases)});
  return section;
}

}  // namespace sparsmith::tools
