#include "generator/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace sparsmith {
namespace {

class Enumeration {
 public:
  Enumeration(const Family& family, const Problem& problem, const SparsityStatistics& statistics, SearchSpace& space)
      : family_(family), problem_(problem), statistics_(statistics), space_(space), parameters_(family.parameters()) {
    config_.family = family.name();
    // A rule is asked when the last of its parameters has been chosen.
    due_.resize(parameters_.size());
    std::set<std::string> chosen;
    std::vector<Rule> rules = family.rules();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      chosen.insert(parameters_[i].name);
      for (Rule& rule : rules) {
        const bool ready = std::all_of(rule.parameters.begin(), rule.parameters.end(),
                                       [&](const std::string& name) { return chosen.contains(name); });
        if (ready && rule.holds) due_[i].push_back(std::move(rule));
      }
      std::erase_if(rules, [](const Rule& rule) { return !rule.holds; });
    }
  }

  void run() { choose(0); }

 private:
  void choose(std::size_t i) {
    if (i == parameters_.size()) {
      space_.entries.push_back({config_, family_.predict(config_, problem_, statistics_)});
      return;
    }
    for (const std::int64_t value : parameters_[i].values) {
      config_.values[parameters_[i].name] = value;
      const RuleInput input{config_, problem_, statistics_};
      const auto broken =
          std::find_if(due_[i].begin(), due_[i].end(), [&](const Rule& rule) { return !rule.holds(input); });
      if (broken != due_[i].end()) {
        ++space_.cuts[family_.name() + ": " + broken->reason];
      } else {
        choose(i + 1);
      }
    }
    config_.values.erase(parameters_[i].name);
  }

  const Family& family_;
  const Problem& problem_;
  const SparsityStatistics& statistics_;
  SearchSpace& space_;
  std::vector<Parameter> parameters_;
  std::vector<std::vector<Rule>> due_;
  Config config_;
};

void sort(SearchSpace& space) {
  std::stable_sort(space.entries.begin(), space.entries.end(),
                   [](const auto& a, const auto& b) { return a.predicted_us < b.predicted_us; });
}

}  // namespace

SearchSpace search_space(const Family& family, const Problem& problem, const SparsityStatistics& statistics) {
  SearchSpace space;
  if (family.serves(problem.spec)) Enumeration(family, problem, statistics, space).run();
  sort(space);
  return space;
}

namespace {

SearchSpace joint_space(bool of_baseline, const Problem& problem, const SparsityStatistics& statistics) {
  SearchSpace space;
  for (const auto& each : families()) {
    if (each->is_baseline() == of_baseline && each->serves(problem.spec))
      Enumeration(*each, problem, statistics, space).run();
  }
  sort(space);
  return space;
}

}  // namespace

SearchSpace search_space(const Problem& problem, const SparsityStatistics& statistics) {
  return joint_space(/*of_baseline=*/false, problem, statistics);
}

SearchSpace baseline_space(const Problem& problem) { return joint_space(/*of_baseline=*/true, problem, {}); }

double baseline_us(const Problem& problem) {
  const SearchSpace space = baseline_space(problem);
  return space.entries.empty() ? 0 : space.entries.front().predicted_us;
}

}  // namespace sparsmith
