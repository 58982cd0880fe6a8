#include "history/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace sparsmith {
namespace {

using Round = PerfStore::Round;

constexpr std::size_t kMostValues = 500;  // the statistics take the square of it in time and memory

// At most kMostValues, each the mean of as many neighbours as that takes.
std::vector<double> batched(std::vector<double> values) {
  const std::size_t size = (values.size() + kMostValues - 1) / kMostValues;
  if (size <= 1) return values;
  std::vector<double> batches;
  for (std::size_t begin = 0; begin + size <= values.size(); begin += size) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + size; ++i) sum += values[i];
    batches.push_back(sum / static_cast<double>(size));
  }
  return batches;
}

using Rounds = std::vector<const Round*>;

// The rounds of one case.
struct Sides {
  Rounds base;
  Rounds head;

  template <class Keep>
  void keep(const Keep& wanted) {
    for (Rounds* side : {&base, &head}) std::erase_if(*side, [&](const Round* round) { return !wanted(*round); });
  }
};

// The implementation that most rounds ran; the later one where several did.
std::int64_t implementation_of(const Rounds& rounds) {
  std::map<std::int64_t, std::size_t> counts;
  for (const Round* round : rounds) ++counts[round->implementation];
  const auto count = [&](const Round* round) { return counts[round->implementation]; };
  return (*std::ranges::max_element(rounds.rbegin(), rounds.rend(), {}, count))->implementation;
}

std::vector<double> times_of(const Rounds& rounds) {
  std::vector<double> times;
  for (const Round* round : rounds) times.push_back(trimmed_mean(round->samples_us));
  return times;
}

// The rounds of both sides that were measured one right after the other, each once. Empty unless nearly all were: where
// a side's rounds come many in a row, a pair says nothing.
std::vector<TimePair> pairs_of(const Rounds& base, const Rounds& head) {
  std::vector<std::pair<const Round*, bool>> all;  // and whether it is of head
  for (const Round* round : base) all.emplace_back(round, false);
  for (const Round* round : head) all.emplace_back(round, true);
  std::ranges::sort(all, {}, [](const auto& of) { return of.first->order; });
  std::vector<TimePair> pairs;
  for (std::size_t i = 0; i + 1 < all.size();) {
    const auto& [first, first_is_head] = all[i];
    const auto& [second, second_is_head] = all[i + 1];
    if (first_is_head == second_is_head) {
      ++i;
      continue;
    }
    pairs.push_back({trimmed_mean((first_is_head ? second : first)->samples_us),
                     trimmed_mean((first_is_head ? first : second)->samples_us)});
    i += 2;
  }
  constexpr double kNearlyAll = 0.8;
  if (static_cast<double>(pairs.size()) < kNearlyAll * static_cast<double>(std::min(base.size(), head.size())))
    return {};
  return pairs;
}

// The first set of rounds, or those that were measured again.
TimeSet times_of(const Sides& sides, bool again) {
  const auto of_set = [again](const Rounds& side) {
    // Somebody measured again and never measured first: that is a first set as well.
    const bool all_again = std::ranges::all_of(side, &Round::again);
    Rounds rounds;
    std::ranges::copy_if(side, std::back_inserter(rounds),
                         [&](const Round* round) { return (round->again && !all_again) == again; });
    return rounds;
  };
  const Rounds base = of_set(sides.base);
  const Rounds head = of_set(sides.head);
  TimeSet set{batched(times_of(base)), batched(times_of(head)), {}};
  if (base.size() <= kMostValues && head.size() <= kMostValues) set.pairs = pairs_of(base, head);
  return set;
}

// Rounds that were taken in turns are compared alone: what a machine did in another week is left out.
void keep_shared_sessions(Sides& sides) {
  std::set<std::string> of_base;
  std::set<std::string> shared;
  for (const Round* round : sides.base) of_base.insert(round->session);
  for (const Round* round : sides.head)
    if (!round->session.empty() && of_base.contains(round->session)) shared.insert(round->session);
  if (!shared.empty()) sides.keep([&](const Round& round) { return shared.contains(round.session); });
}

// Leaves both sides with the last environment of head that base was measured in too. False: there is none.
bool keep_shared_environment(Sides& sides) {
  std::set<PerfEnvironment> of_base;
  for (const Round* round : sides.base) of_base.insert(round->environment);
  const auto last = std::ranges::find_if(sides.head.rbegin(), sides.head.rend(),
                                         [&](const Round* round) { return of_base.contains(round->environment); });
  if (last == sides.head.rend()) return false;
  const PerfEnvironment environment = (*last)->environment;
  sides.keep([&](const Round& round) { return round.environment == environment; });
  return true;
}

void explain_environment(const Sides& sides, ComparisonRow& row) {
  const PerfEnvironment& x = sides.base.back()->environment;
  const PerfEnvironment& y = sides.head.back()->environment;
  row.cause = Cause::kEnvironment;
  row.reason = "measured in different environments: their times cannot be compared";
  for (const auto& [what, base, head] :
       {std::tuple("device", x.device, y.device), std::tuple("driver", x.driver, y.driver),
        std::tuple("NVRTC", x.nvrtc, y.nvrtc), std::tuple("clocks", x.clocks, y.clocks)}) {
    if (base != head) row.differences.push_back({what, base, head});
  }
}

Result<ComparisonRow> compare_case(PerfStore& store, const CaseKey& key, Sides sides, const VerdictRules& rules) {
  ComparisonRow row;
  row.key = key;
  row.command = sides.head.back()->command;
  keep_shared_sessions(sides);
  if (!keep_shared_environment(sides)) {
    explain_environment(sides, row);
    return row;
  }
  row.base_rounds = static_cast<int>(sides.base.size());
  row.head_rounds = static_cast<int>(sides.head.size());
  SPARSMITH_ASSIGN_OR_RETURN(const Implementation base, store.implementation(implementation_of(sides.base)));
  SPARSMITH_ASSIGN_OR_RETURN(const Implementation head, store.implementation(implementation_of(sides.head)));
  row.cause = cause_of(base, head);
  row.differences = differences(base, head);
  if (row.cause == Cause::kKernel || row.cause == Cause::kOtherChoice) row.snippets = changed_snippets(base, head);

  row.first_times = times_of(sides, false);
  row.again_times = times_of(sides, true);
  static_cast<Judgement&>(row) = judge(row.first_times, row.again_times, rules);
  row.measured = true;
  row.unsure = row.verdict == Verdict::kAmbiguous && !row.suspected && row.first.more_rounds > 0;
  if (row.cause == Cause::kNone) {  // whatever was measured is noise
    row.verdict = Verdict::kSame;
    row.suspected = false;
    row.unsure = false;
    row.reason = "the same binary, launch plan, packed bytes and environment";
  }
  return row;
}

// Marks accept what happened after `base`, up to `head`.
Result<std::vector<PerfMark>> marks_between(PerfStore& store, const std::string& base, const std::string& head) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<PerfStore::Commit> commits, store.commits(""));
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<PerfMark> marks, store.marks());
  std::map<std::string, std::size_t> order;
  for (std::size_t i = 0; i < commits.size(); ++i) order[commits[i].hash] = i;
  std::erase_if(marks, [&](const PerfMark& mark) {
    const auto at = order.find(mark.commit);
    const bool between = at != order.end() && order[base] < at->second && at->second <= order[head];
    return mark.commit != head && !between;
  });
  return marks;
}

int rank_of(const ComparisonRow& row) {
  if (row.verdict == Verdict::kSlow) return 0;
  if (row.suspected) return 1;
  if (row.verdict == Verdict::kFast) return 2;
  return row.verdict == Verdict::kAmbiguous ? 3 : 4;
}

void sum_up(Comparison& comparison) {
  double logarithms = 0;
  int measured = 0;
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.measured) continue;
    logarithms += std::log(row.first.head.center / row.first.base.center);
    ++measured;
    if (row.cause != Cause::kNone) continue;
    ++comparison.unchanged_measured;
    const Verdict verdict = row.first.verdict;
    if (verdict == Verdict::kSlow || verdict == Verdict::kFast) ++comparison.unchanged_alarms;
  }
  if (measured > 0) comparison.geometric_mean = std::exp(logarithms / measured);
  std::ranges::stable_sort(comparison.rows, [](const ComparisonRow& a, const ComparisonRow& b) {
    return std::tuple(rank_of(a), -std::abs(a.first.change)) < std::tuple(rank_of(b), -std::abs(b.first.change));
  });
}

}  // namespace

int Comparison::count(Verdict verdict) const {
  return static_cast<int>(
      std::ranges::count_if(rows, [verdict](const ComparisonRow& row) { return row.verdict == verdict; }));
}

Result<Comparison> compare(PerfStore& store, const std::string& base, const std::string& head,
                           const ComparisonOptions& options) {
  Comparison comparison;
  comparison.base = base;
  comparison.head = head;
  std::map<CaseKey, Sides> cases;
  std::vector<Round> rounds[2];
  for (const bool is_head : {false, true}) {
    const std::string& commit = is_head ? head : base;
    const std::string& session = is_head ? options.head_session : options.base_session;
    SPARSMITH_ASSIGN_OR_RETURN(rounds[is_head],
                               store.rounds({.commit = commit, .session = session, .case_name = options.case_name}));
    if (rounds[is_head].empty())
      return not_found(fmt::format("{}: nothing is recorded of commit {}{}{}", store.path(), commit,
                                   session.empty() ? "" : " in session " + session,
                                   options.case_name.empty() ? "" : " for case " + options.case_name));
    for (const Round& round : rounds[is_head])
      (is_head ? cases[round.key].head : cases[round.key].base).push_back(&round);
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<PerfMark> marks, marks_between(store, base, head));
  for (auto& [key, sides] : cases) {
    if (sides.head.empty()) {
      comparison.only_base.push_back(key);
    } else if (sides.base.empty()) {
      comparison.only_head.push_back(key);
    } else {
      SPARSMITH_ASSIGN_OR_RETURN(ComparisonRow row, compare_case(store, key, std::move(sides), options.rules));
      for (const PerfMark& mark : marks)
        if (row.verdict != Verdict::kSame && !row.accepted && mark.accepts(row.key.name)) row.accepted = mark;
      comparison.rows.push_back(std::move(row));
    }
  }
  sum_up(comparison);
  return comparison;
}

}  // namespace sparsmith
