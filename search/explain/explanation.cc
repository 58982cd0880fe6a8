#include "search/explain/explanation.h"

#include <algorithm>
#include <functional>
#include <string>

#include "generator/search_space.h"
#include "matrix/weight_structure.h"
#include "search/choice/bucket.h"

namespace sparsmith {
namespace {

constexpr double kLaunchUs = 2.0;              // a graph node with its ramp up and down
constexpr double kL2GatherBytesPerUs = 9.5e6;  // of rows of X, by many warps

// What was last found out about each config.
std::map<std::string, const MeasurementRecord*> last_of_each(const std::vector<MeasurementRecord>& measurements) {
  std::map<std::string, const MeasurementRecord*> last;
  for (const MeasurementRecord& each : measurements) last[each.config] = &each;
  return last;
}

bool passed(const MeasurementRecord& measurement) {
  return measurement.status == MeasurementStatus::kOk && measurement.median_us > 0;
}

void add_measurements(const std::vector<MeasurementRecord>& measurements, const ChoiceToExplain& choice,
                      Explanation& explanation) {
  for (const auto& [text, measurement] : last_of_each(measurements)) {
    const auto config = Config::parse(text);
    if (!config.ok() || family(config->family) == nullptr) continue;  // a vendor, or a family of another build
    const auto found = std::ranges::find(explanation.families, config->family, &Explanation::FamilyRecord::name);
    if (found == explanation.families.end()) continue;
    Explanation::FamilyRecord& record = *found;
    ++record.tried;
    if (!passed(*measurement)) {
      const std::string outcome = rejection_class(measurement->status, measurement->reason);
      ++explanation.rejected[outcome];
      if (explanation.rejections.size() < Explanation::kMostRejections) {
        explanation.rejections.push_back({text, config->family, outcome, measurement->reason});
      } else {
        ++explanation.further_rejections;
      }
      continue;
    }
    ++record.passed;
    if (record.best_us == 0 || measurement->median_us < record.best_us) {
      record.best_us = measurement->median_us;
      record.best_config = text;
    }
    const bool rival =
        text != choice.config && (explanation.runner_up_us == 0 || measurement->median_us < explanation.runner_up_us);
    if (rival) {
      explanation.runner_up_us = measurement->median_us;
      explanation.runner_up = text;
    }
  }
}

std::vector<Explanation::Bound> bounds_of(const Problem& problem, const SparsityStatistics& statistics,
                                          const ChoiceToExplain& choice) {
  const auto tokens = static_cast<double>(problem.tokens);
  const auto rows = static_cast<double>(problem.spec.rows);
  const auto cols = static_cast<double>(problem.spec.cols);
  const auto element = static_cast<double>(size_of(problem.spec.type));
  const double bytes = static_cast<double>(choice.weight_bytes) + element * tokens * (rows + cols);
  std::vector<Explanation::Bound> bounds = {{"HBM", bytes / problem.device.memory_bandwidth * 1e6},
                                            {"launch", kLaunchUs * static_cast<double>(choice.launches)}};
  const auto config = Config::parse(choice.config);
  const Family* const of = config.ok() ? family(config->family) : nullptr;
  const double share = of != nullptr ? of->multiplied_share : 0;  // of all elements
  if (share > 0 && problem.spec.type != DataType::kFloat32) {
    const double us = share * 2 * rows * cols * tokens / problem.device.tensor_operations_per_second() * 1e6;
    bounds.push_back({"tensor cores", us});
  } else if (of == nullptr || !of->is_baseline) {
    bounds.push_back({"L2 gathers", static_cast<double>(statistics.nnz) * tokens * element / kL2GatherBytesPerUs});
  }
  // X in shared memory or registers is gathered from there: what takes longer than the run does not bound it.
  std::erase_if(bounds, [&](const Explanation::Bound& bound) { return bound.us > 1.1 * choice.us; });
  std::ranges::stable_sort(bounds, std::greater<>(), &Explanation::Bound::us);
  return bounds;
}

}  // namespace

namespace {

// The best of the families but the baseline; 0: none passed.
double fastest_other(const Explanation& explanation) {
  double least = 0;
  for (const Explanation::FamilyRecord& each : explanation.families) {
    if (each.best_us > 0 && !family(each.name)->is_baseline && (least == 0 || each.best_us < least))
      least = each.best_us;
  }
  return least;
}

}  // namespace

Explanation explain(const Problem& problem, const SparsityStatistics& statistics, const ChoiceToExplain& choice,
                    const std::vector<MeasurementRecord>& measurements) {
  Explanation explanation;
  if (const auto structure = structure_of(statistics)) explanation.structure = structure->text();
  for (const auto& each : families()) {
    if (!each->serves(problem.spec)) continue;
    const SearchSpace space = search_space(*each, problem, statistics);
    Explanation::FamilyRecord& record = explanation.families.emplace_back();
    record.name = each->name;
    record.configs = static_cast<std::int64_t>(space.configs.size());
    if (!space.configs.empty()) record.predicted_us = space.configs.front().predicted_us;
    for (const auto& [rule, count] : space.cuts) explanation.cuts[rule] += count;
  }
  add_measurements(measurements, choice, explanation);
  std::ranges::stable_sort(explanation.families, [](const auto& a, const auto& b) {
    if ((a.best_us > 0) != (b.best_us > 0)) return a.best_us > 0;
    return a.best_us > 0 ? a.best_us < b.best_us : a.predicted_us < b.predicted_us;
  });
  explanation.bounds = bounds_of(problem, statistics, choice);

  // Where dense stays, the fastest sparse one is what would have to get faster.
  const auto config = Config::parse(choice.config);
  const double sparse_us = config.ok() && is_baseline(*config) ? fastest_other(explanation) : choice.us;
  const double density = 1 - statistics.sparsity;
  const double launch = kLaunchUs * static_cast<double>(choice.launches);
  if (sparse_us > launch && choice.dense_us > launch)
    explanation.flips_at_density = density * (choice.dense_us - launch) / (sparse_us - launch);
  return explanation;
}

}  // namespace sparsmith
