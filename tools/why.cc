#include "tools/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cache/cache.h"
#include "search/explanation.h"
#include "search/tuned_output.h"
#include "tools/print.h"
#include "tools/text_table.h"
#include "tools/tune_table.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kMostRules = 8;  // that are printed

// "sm_90 132 SMs": the typical device of that architecture, with so many SMs.
DeviceProperties device_of(const std::string& device_class) {
  const auto number_at = [&](std::size_t at) {
    int number = 0;
    if (at < device_class.size())
      std::from_chars(device_class.data() + at, device_class.data() + device_class.size(), number);
    return number;
  };
  const std::size_t architecture = device_class.find("sm_");
  DeviceProperties device = typical_device(architecture == std::string::npos ? 90 : number_at(architecture + 3));
  const std::size_t blank = device_class.find(' ', architecture == std::string::npos ? 0 : architecture);
  const int multiprocessors = blank == std::string::npos ? 0 : number_at(blank + 1);
  if (multiprocessors > 0) device.sm_count = multiprocessors;
  return device;
}

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

std::string us_text(double us) { return us > 0 ? fmt::format("{:.2f}", us) : "-"; }

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
  TextTable table({{"  family"},
                   {"configs", true},
                   {"predicted us", true},
                   {"tried", true},
                   {"passed", true},
                   {"best us", true},
                   {"best config"}});
  for (const Explanation::FamilyRecord& each : explanation.families) {
    table.add({"  " + each.name, std::to_string(each.configs), us_text(each.predicted_us), std::to_string(each.tried),
               std::to_string(each.passed), us_text(each.best_us), each.best_config});
  }
  print("{}", table.plain());
}

void print_verdict(const TunedChoice& choice, const Explanation& explanation) {
  const auto config = Config::parse(choice.config);
  const bool sparse = !config.ok() || !is_baseline(*config);
  if (explanation.runner_up_us > 0) {
    print("  margin    {:+.1f} % to the fastest other one tried, {:.2f} us: {}\n",
          (explanation.runner_up_us / choice.median_us - 1) * 100, explanation.runner_up_us, explanation.runner_up);
  }
  if (!explanation.bounds.empty()) {
    std::string bounds;
    for (const Explanation::Bound& bound : explanation.bounds) {
      bounds += fmt::format("{}{} {:.2f} us ({:.0f} %)", bounds.empty() ? "" : ", ", bound.name, bound.us,
                            bound.us / choice.median_us * 100);
    }
    print("  near      {}, of {:.2f} us; each a bound by itself, estimated\n", bounds, choice.median_us);
  }
  if (explanation.flips_at_density > 0 && explanation.flips_at_density < 1) {
    print("  flips     to {} at {} than {:.0f} % zeros, if its time grows with the nonzeros\n",
          sparse ? "dense" : "sparse", sparse ? "fewer" : "more", (1 - explanation.flips_at_density) * 100);
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
    Problem problem{op.spec, 1, device_of(contents.provenance.device_class)};
    for (const TunedChoice& choice : op.choices) {
      if (tokens > 0 && &choice != &op.choice_for(tokens)) continue;
      problem.tokens = choice.tokens;
      std::vector<MeasurementRecord> measurements;
      if (cache) {
        auto found = cache->measurements({weight.pattern_hash, op.spec.name(), choice.tokens,
                                          contents.provenance.device_class, contents.provenance.timing_policy});
        if (found.ok()) measurements = std::move(*found);
      }
      ChoiceToExplain explained;
      explained.us = choice.median_us;
      explained.dense_us = choice.dense_us;
      explained.config = choice.config;
      if (const TunedPacking* packing = weight.packing(choice.packing)) explained.weight_bytes = packing->bytes();
      explained.launches = std::max<std::size_t>(1, choice.plan.steps.size());
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
    print("  no cache has measurements of this weight here (--cache): what was tried is not known\n");
}

nlohmann::json why_json(const Explanation& explanation) {
  nlohmann::json object = {{"families", nlohmann::json::array()},
                           {"pruned", explanation.cuts},
                           {"rejected", explanation.rejected},
                           {"runner_up", explanation.runner_up},
                           {"runner_up_us", explanation.runner_up_us},
                           {"bounds", nlohmann::json::array()},
                           {"flips_at_density", explanation.flips_at_density}};
  for (const Explanation::FamilyRecord& each : explanation.families) {
    object["families"].push_back({{"name", each.name},
                                  {"configs", each.configs},
                                  {"predicted_us", each.predicted_us},
                                  {"tried", each.tried},
                                  {"passed", each.passed},
                                  {"best_us", each.best_us},
                                  {"best_config", each.best_config}});
  }
  object["rejections"] = nlohmann::json::array();
  for (const Rejection& each : explanation.rejections) {
    object["rejections"].push_back(
        {{"config", each.config}, {"family", each.family}, {"outcome", each.outcome}, {"reason", each.reason}});
  }
  object["rejections_left_out"] = explanation.further_rejections;
  for (const Explanation::Bound& bound : explanation.bounds)
    object["bounds"].push_back({{"name", bound.name}, {"us", bound.us}});
  return object;
}

}  // namespace sparsmith::tools
