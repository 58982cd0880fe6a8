#include "search/choice/cached_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/log.h"

namespace sparsmith {
namespace {

// The choice again, from its config alone. False when this build cannot.
bool remake(bool programmatic, const Config& config, const Problem& problem, const SparsityStatistics& statistics,
            Packings& packings, BucketChoice& choice) {
  const Family* of = family(config.family);
  if (of == nullptr || !of->check(config, problem, statistics).ok()) return false;
  const auto packed = packings.get(config, problem);
  if (!packed.ok()) return false;
  auto candidate = generate_candidate(config, problem, **packed, programmatic);
  if (!candidate.ok()) return false;
  choice.candidate = std::move(*candidate);
  choice.candidate.predicted_us = of->predict(config, problem, statistics);
  choice.packer_version = (*packed)->packer_version;
  return true;
}

// A family by its space: "slots:1f0c22ab", with a hash of its parameters and rules.
std::string identity_of(const Family& of) {
  std::string space;
  for (const Parameter& parameter : of.parameters)
    space += fmt::format("|{}={}", parameter.name, fmt::join(parameter.values, ","));
  for (const Rule& rule : of.rules) space += "|" + rule.reason;
  return fmt::format("{}:{:.8}", of.name, hash_text(space));
}
std::string name_of(const std::string& identity) { return identity.substr(0, identity.find(':')); }

std::set<std::string> split(const std::string& families) {
  std::set<std::string> each;
  for (std::size_t begin = 0; begin < families.size();) {
    const std::size_t end = std::min(families.find(',', begin), families.size());
    each.insert(families.substr(begin, end - begin));
    begin = end + 1;
  }
  return each;
}

}  // namespace

CachedChoices::CachedChoices(const TuneRun& run, bool predict, std::string goal, const WeightResult& weight,
                             const OperatorSpec& spec, const SparsityStatistics& statistics, Packings& packings)
    : run_(run), predict_(predict), goal_(std::move(goal)) {
  const std::vector<std::string>& only = run.options.selection.families;
  for (const auto& each : families()) {
    const std::string name(each->name);
    const bool is_wanted = only.empty() || each->is_baseline || std::ranges::find(only, name) != only.end();
    if (is_wanted && each->serves(spec)) wanted_.emplace(name, identity_of(*each));
  }
  for (const std::int64_t tokens : run.options.tokens) {
    found_[tokens];
    if (run.cache != nullptr) look_up(weight, {spec, tokens, run.device}, statistics, packings);
  }
}

bool CachedChoices::kernels_ready(const Candidate& candidate) const {
  if (predict_ && run_.kernels->nvrtc_version().empty()) return true;
  const Candidate* one = &candidate;
  run_.kernels->ensure({&one, 1}, KernelStore::Urgency::kSoon);
  return std::ranges::all_of(candidate.kernels,
                             [&](const KernelSource& kernel) { return run_.kernels->find(kernel).ok(); });
}

void CachedChoices::look_up(const WeightResult& weight, const Problem& problem, const SparsityStatistics& statistics,
                            Packings& packings) {
  auto match = run_.cache->find_choice(problem_key(run_, weight, problem.spec, problem.tokens),
                                       run_.device.compute_capability, run_.device.sm_count);
  if (!match.ok()) log_debug("the cache was not read: {}", match.status().message());
  if (!match.ok() || match->quality == MatchQuality::kNone) return;
  const ChoiceRecord& record = match->choice;
  Found& found = found_[problem.tokens];
  found.quality = match->quality;
  BucketChoice& choice = found.choice;
  choice.spec = problem.spec;
  choice.tokens = problem.tokens;
  choice.evidence = record.evidence;
  choice.reason = record.reason;
  choice.timing.median_us = record.us;
  choice.timing.q1_us = record.q1_us;
  choice.timing.q3_us = record.q3_us;
  choice.dense_us = record.dense_us;
  choice.complete = record.complete;
  choice.verification.ok = true;
  choice.cached = true;
  choice.incumbent = match_quality_name(match->quality);
  found.families = split(record.families);
  found.counts = match->quality == MatchQuality::kExact && record.us > 0 &&
                 (record.goal == goal_ || run_.options.keep_choices) &&
                 record.nvrtc_version == run_.kernels->nvrtc_version() && (record.evidence == "measured" || predict_);
  const auto config = Config::parse(record.config);
  if (!config.ok() || !wanted_.contains(config->family)) return;
  found.made = remake(run_.options.timing.programmatic, *config, problem, statistics, packings, choice);
  const bool same_code =
      record.closure_hash == closure_hash_of(choice.candidate) && record.packer_version == choice.packer_version;
  found.valid =
      found.counts && found.made && (same_code || run_.options.keep_choices) && kernels_ready(choice.candidate);
}

bool CachedChoices::complete() const { return all_valid(/*complete_ones=*/true) && new_families().empty(); }
bool CachedChoices::at_hand() const { return all_valid(/*complete_ones=*/false); }

bool CachedChoices::all_valid(bool complete_ones) const {
  return std::ranges::all_of(
      found_, [&](const auto& each) { return each.second.valid && (each.second.choice.complete || !complete_ones); });
}

bool CachedChoices::compared_with(const std::string& identity) const {
  return std::ranges::all_of(found_, [&](const auto& each) { return each.second.families.contains(identity); });
}

std::vector<std::string> CachedChoices::new_families() const {
  std::vector<std::string> names;
  if (run_.options.keep_choices || !all_valid(/*complete_ones=*/true)) return names;
  for (const auto& [name, identity] : wanted_) {
    if (!compared_with(identity)) names.push_back(name);
  }
  return names;
}

std::optional<std::string> CachedChoices::families_of_choice(std::int64_t tokens) const {
  const Found& found = found_.at(tokens);
  if (run_.options.keep_choices && found.valid) return fmt::format("{}", fmt::join(found.families, ","));
  for (const std::string& identity : found.families) {
    const std::string name = name_of(identity);
    if (found.counts && !wanted_.contains(name) && family(name) != nullptr) return std::nullopt;
  }
  std::vector<std::string> searched;
  for (const auto& [name, identity] : wanted_) searched.push_back(identity);
  return fmt::format("{}", fmt::join(searched, ","));
}

std::vector<BucketChoice> CachedChoices::take() {
  std::vector<BucketChoice> choices;
  for (auto& [tokens, found] : found_) choices.push_back(std::move(found.choice));
  return choices;
}

const BucketChoice* CachedChoices::incumbent(std::int64_t tokens) const {
  const auto found = found_.find(tokens);
  return found != found_.end() && found->second.made ? &found->second.choice : nullptr;
}

MatchQuality CachedChoices::quality(std::int64_t tokens) const {
  const auto found = found_.find(tokens);
  return found == found_.end() ? MatchQuality::kNone : found->second.quality;
}

ProblemKey problem_key(const TuneRun& run, const WeightResult& weight, const OperatorSpec& spec, std::int64_t tokens) {
  return {weight.pattern_hash, spec.name(), tokens, run.device.device_class(), run.options.timing.name()};
}

std::string goal_of(const TuneOptions& options, std::span<const OperatorSpec> operators) {
  const std::string bound =
      options.train ? "of training" : fmt::format("{:g}x{}", options.memory, options.memory < 1 ? " before time" : "");
  std::string goal =
      fmt::format("memory {} of N {} called {}", bound, fmt::join(options.tokens, ","),
                  options.calls.empty() ? "by dense" : fmt::format("{:g}", fmt::join(options.calls, ",")));
  for (std::size_t i = 0; i < operators.size() && operators.size() > 1; ++i) {
    goal += fmt::format("{}{}", i == 0 ? " for " : ",", operator_kind_name(operators[i].kind));
    if (operators[i].epilogue != Epilogue()) goal += "_" + operators[i].epilogue.name();
  }
  return goal;
}

void store_choice(const TuneRun& run, const std::string& goal, const WeightResult& weight, const BucketChoice& choice,
                  const std::string& families) {
  if (run.cache == nullptr) return;
  ChoiceRecord record;
  record.key = problem_key(run, weight, choice.spec, choice.tokens);
  record.compute_capability = run.device.compute_capability;
  record.sm_count = run.device.sm_count;
  record.kind = "generated";
  record.config = choice.candidate.config.text();
  record.packing = choice.candidate.packing;
  record.packer_version = choice.packer_version;
  record.closure_hash = closure_hash_of(choice.candidate);
  record.nvrtc_version = run.kernels->nvrtc_version();
  record.evidence = choice.evidence;
  record.reason = choice.reason;
  record.families = families;
  record.goal = goal;
  record.us = choice.timing.median_us;
  record.q1_us = choice.timing.q1_us;
  record.q3_us = choice.timing.q3_us;
  record.dense_us = choice.dense_us;
  record.complete = choice.complete;
  record.budget_s = run.options.budget_s;
  (void)run.cache->put_choice(record);  // the cache counts what it cannot write
}

}  // namespace sparsmith
