#include "tools/commands/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cache/cache.h"
#include "search/explain/explanation.h"
#include "search/record/tuned_output.h"
#include "tools/commands/tune_json.h"
#include "tools/commands/tune_table.h"
#include "tools/print.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kMostRules = 8;  // that are printed

Result<std::optional<Cache>> open_for_reading(const std::string& named) {
  std::string path = named;
  if (path.empty()) {
    const auto standard = Cache::default_path();
    if (!standard.ok() || !std::filesystem::exists(*standard)) return std::optional<Cache>();
    path = *standard;
  }
  auto cache = Cache::open(path, Cache::Mode::kReadOnly);
  if (cache.ok()) return std::optional<Cache>(std::move(*cache));
  if (named.empty()) return std::optional<Cache>();
  return cache.status();
}

// The most frequent ones, a line each.
void print_counts(const std::map<std::string, std::int64_t>& counts, const char* what) {
  std::vector<std::pair<std::int64_t, std::string>> sorted;
  for (const auto& [reason, count] : counts) sorted.emplace_back(-count, reason);
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size() && i < kMostRules; ++i)
    print("  {:<9} {} x {}\n", i == 0 ? what : "", -sorted[i].first, sorted[i].second);
  if (sorted.size() > kMostRules) print("  {:<9} and {} further reasons\n", "", sorted.size() - kMostRules);
}

void print_families(const Explanation& explanation) {
  Table table{.columns = {"  family", ">configs", ">predicted us", ">tried", ">passed", ">best us", "best config"}};
  for (const Explanation::FamilyRecord& each : explanation.families) {
    table.add("  " + each.name, each.configs, us_text(each.predicted_us), each.tried, each.passed,
              us_text(each.best_us), each.best_config);
  }
  print("{}", table.plain());
}

void print_verdict(const TunedChoice& choice, const Explanation& explanation) {
  const auto config = Config::parse(choice.config);
  const bool sparse = !config.ok() || !is_baseline(*config);
  print("  structure {}\n",
        explanation.structure.empty() ? "none: neither blocks nor N of M columns" : explanation.structure);
  if (explanation.runner_up_us > 0) {
    print("  margin    {:+.1f} % to the fastest other one tried, {:.2f} us: {}\n",
          (explanation.runner_up_us / choice.median_us - 1) * 100, explanation.runner_up_us, explanation.runner_up);
  }
  if (!explanation.bounds.empty()) {
    std::vector<std::string> bounds;
    for (const Explanation::Bound& bound : explanation.bounds)
      bounds.push_back(fmt::format("{} {}", bound.name, percent(bound.us / choice.median_us, 0)));
    print("{}", fmt::format("  limits    of {:.2f} us: {} (estimated, may overlap)\n", choice.median_us,
                            fmt::join(bounds, ", ")));
  }
  if (explanation.flips_at_density > 0 && explanation.flips_at_density < 1) {
    print("  flips     {} about {:.0f} % zeros {} would win (extrapolated)\n", sparse ? "below" : "above",
          (1 - explanation.flips_at_density) * 100, sparse ? "dense" : "this kernel");
  }
}

constexpr std::size_t kMostRejections = 8;  // that are printed

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void print_rejections(const Explanation& explanation) {
  const std::size_t shown = std::min(explanation.rejections.size(), kMostRejections);
  for (std::size_t i = 0; i < shown; ++i) {
    const Rejection& each = explanation.rejections[i];
    fmt::print("            {}: {}\n", short_config(each.config), first_line(each.reason));
  }
  const auto left_out =
      static_cast<std::int64_t>(explanation.rejections.size() - shown) + explanation.further_rejections;
  if (left_out > 0) fmt::print("            and {} further candidates (--json has up to 100)\n", left_out);
}

}  // namespace

Result<std::vector<ExplainedChoice>> explained_choices(const TunedContents& contents, const TunedWeight& weight,
                                                       std::int64_t tokens, const std::string& cache_path) {
  SPARSMITH_ASSIGN_OR_RETURN(std::optional<Cache> cache, open_for_reading(cache_path));
  SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, matrix_of(weight));
  std::vector<ExplainedChoice> all;
  for (const TunedOperator& op : weight.operators) {
    const SparsityStatistics statistics = compute_statistics(multiplied(op.spec.kind, matrix));
    Problem problem{op.spec, 1, device_of_class(contents.provenance.device_class).value_or(typical_device(90))};
    for (const TunedChoice& choice : op.choices) {
      if (tokens > 0 && &choice != &op.choice_for(tokens)) continue;
      problem.tokens = choice.tokens;
      std::vector<MeasurementRecord> measurements;
      if (cache) {
        auto found = cache->measurements({weight.pattern_hash, op.spec.name(), choice.tokens,
                                          contents.provenance.device_class, contents.provenance.timing_policy});
        if (found.ok()) measurements = std::move(*found);
      }
      const TunedPacking* const packing = weight.packing(choice.packing);
      const ChoiceToExplain explained{.config = choice.config,
                                      .us = choice.median_us,
                                      .dense_us = choice.dense_us,
                                      .weight_bytes = packing == nullptr ? 0 : packing->bytes(),
                                      .launches = std::max<std::size_t>(1, choice.plan.steps.size())};
      all.push_back(
          {&choice, explain(problem, statistics, explained, measurements), !measurements.empty(), op.spec.kind});
    }
  }
  return all;
}

void print_why(const ExplainedChoice& explained) {
  print("why, for N up to {}:\n", explained.choice->tokens);
  print_families(explained.explanation);
  print_verdict(*explained.choice, explained.explanation);
  print_counts(explained.explanation.rejected, "rejected");
  print_rejections(explained.explanation);
  print_counts(explained.explanation.cuts, "pruned");
  if (!explained.has_measurements)
    print("  no cache has measurements of this weight (--cache): the tried candidates are not known\n");
}

nlohmann::json why_json(const Explanation& explanation) {
  nlohmann::json object = {{"families", nlohmann::json::array()},
                           {"pruned", explanation.cuts},
                           {"rejected", explanation.rejected},
                           {"runner_up", explanation.runner_up},
                           {"runner_up_us", explanation.runner_up_us},
                           {"bounds", nlohmann::json::array()},
                           {"flips_at_density", explanation.flips_at_density},
                           {"structure", explanation.structure}};
  for (const Explanation::FamilyRecord& each : explanation.families) {
    object["families"].push_back({{"name", each.name},
                                  {"configs", each.configs},
                                  {"predicted_us", each.predicted_us},
                                  {"tried", each.tried},
                                  {"passed", each.passed},
                                  {"best_us", each.best_us},
                                  {"best_config", each.best_config}});
  }
  object["rejections"] = rejections_json(explanation.rejections);
  object["rejections_left_out"] = explanation.further_rejections;
  for (const Explanation::Bound& bound : explanation.bounds)
    object["bounds"].push_back({{"name", bound.name}, {"us", bound.us}});
  return object;
}

}  // namespace sparsmith::tools
