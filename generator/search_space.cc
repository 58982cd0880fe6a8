#include "generator/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <set>

namespace sparsmith {
namespace {

class Enumeration {
 public:
  Enumeration(const Family& family, const Problem& problem, const SparsityStatistics& statistics, SearchSpace& space)
      : family_(family), problem_(problem), statistics_(statistics), space_(space) {
    config_.family = family.name;
    // A rule is asked when the last of its parameters has been chosen.
    due_.resize(family_.parameters.size());
    cuts_.resize(family_.parameters.size());
    std::set<std::string> chosen;
    std::vector<Rule> rules = family.rules;
    for (std::size_t i = 0; i < family_.parameters.size(); ++i) {
      chosen.insert(family_.parameters[i].name);
      for (Rule& rule : rules) {
        const bool ready =
            rule.parameters.empty()
                ? i + 1 == family_.parameters.size()
                : std::ranges::all_of(rule.parameters, [&](auto& name) { return chosen.contains(name); });
        if (ready && rule.holds) due_[i].push_back(std::move(rule));
      }
      cuts_[i].resize(due_[i].size());
      std::erase_if(rules, [](const Rule& rule) { return !rule.holds; });
    }
  }

  void run() {
    choose(0);
    for (std::size_t i = 0; i < due_.size(); ++i)
      for (std::size_t rule = 0; rule < due_[i].size(); ++rule)
        if (cuts_[i][rule] > 0) space_.cuts[family_.name + ": " + due_[i][rule].reason] += cuts_[i][rule];
  }

 private:
  void choose(std::size_t i) {
    if (i == family_.parameters.size()) {
      space_.configs.push_back({config_, family_.predict(config_, problem_, statistics_)});
      return;
    }
    std::int64_t& chosen = config_.values[family_.parameters[i].name];
    for (const std::int64_t value : family_.parameters[i].values) {
      chosen = value;
      const RuleInput input{config_, problem_, statistics_};
      const auto broken =
          std::find_if(due_[i].begin(), due_[i].end(), [&](const Rule& rule) { return !rule.holds(input); });
      if (broken != due_[i].end()) {
        ++cuts_[i][static_cast<std::size_t>(broken - due_[i].begin())];
      } else {
        choose(i + 1);
      }
    }
    config_.values.erase(family_.parameters[i].name);
  }

  const Family& family_;
  const Problem& problem_;
  const SparsityStatistics& statistics_;
  SearchSpace& space_;
  std::vector<std::vector<Rule>> due_;
  std::vector<std::vector<std::int64_t>> cuts_;  // by the same rules
  Config config_;
};

template <class Families>
SearchSpace space_of(Families families, const Problem& problem, const SparsityStatistics& statistics) {
  SearchSpace space;
  for (const Family* const each : families) {
    if (each->serves(problem.spec)) Enumeration(*each, problem, statistics, space).run();
  }
  std::ranges::stable_sort(space.configs, {}, &PredictedConfig::predicted_us);
  return space;
}

auto baselines(bool wanted) {
  return families() | std::views::filter([wanted](const Family* each) { return each->is_baseline == wanted; });
}

}  // namespace

SearchSpace search_space(const Family& family, const Problem& problem, const SparsityStatistics& statistics) {
  return space_of(std::array{&family}, problem, statistics);
}

SearchSpace search_space(const Problem& problem, const SparsityStatistics& statistics) {
  return space_of(baselines(false), problem, statistics);
}

SearchSpace baseline_space(const Problem& problem) { return space_of(baselines(true), problem, {}); }

double baseline_us(const Problem& problem) {
  const SearchSpace space = baseline_space(problem);
  return space.configs.empty() ? 0 : space.configs.front().predicted_us;
}

}  // namespace sparsmith
