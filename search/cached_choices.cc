#include "search/cached_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "search/bucket.h"

namespace sparsmith {
namespace {

// The choice again, from its config alone. False when this build cannot.
bool remake(const TuneContext& context, const Config& config, const Problem& problem,
            const SparsityStatistics& statistics, Packings& packings, BucketChoice& choice) {
  const Family* of = family(config.family);
  if (of == nullptr || !of->check(config, problem, statistics).ok()) return false;
  const auto packed = packings.get(config, problem);
  if (!packed.ok()) return false;
  auto candidate = generate_candidate(context, config, problem, **packed);
  if (!candidate.ok()) return false;
  choice.candidate = std::move(*candidate);
  choice.candidate.predicted_us = of->predict(config, problem, statistics);
  choice.packer_version = (*packed)->packer_version;
  return true;
}

// A family by its space: "slots:1f0c22ab", with a hash of its parameters and rules.
std::string identity_of(const Family& of) {
  std::string space;
  for (const Parameter& parameter : of.parameters())
    space += fmt::format("|{}={}", parameter.name, fmt::join(parameter.values, ","));
  for (const Rule& rule : of.rules()) space += "|" + rule.reason;
  return fmt::format("{}:{:.8}", of.name(), hash_text(space));
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

// What choices depend on beside weight, device and code: one N's is made together with those of the others, and of the
// weight's other operators.
std::string goal_of(const TuneOptions& options) {
  std::string goal = fmt::format("memory {:g}x of N {} called {:g}", options.memory, fmt::join(options.tokens, ","),
                                 fmt::join(options.calls, ","));
  for (std::size_t i = 0; i < options.kinds.size() && options.kinds.size() > 1; ++i)
    goal += fmt::format("{}{}", i == 0 ? " for " : ",", operator_kind_name(options.kinds[i]));
  return goal;
}

bool kernels_ready(const TuneContext& context, const Candidate& candidate) {
  if (context.predict && context.kernels->nvrtc_version().empty()) return true;
  const Candidate* one = &candidate;
  context.kernels->ensure({&one, 1}, KernelStore::Urgency::kSoon);
  return std::ranges::all_of(candidate.kernels,
                             [&](const KernelSource& kernel) { return context.kernels->find(kernel).ok(); });
}

}  // namespace

CachedChoices::CachedChoices(const TuneContext& context, const WeightResult& weight, const OperatorSpec& spec,
                             const SparsityStatistics& statistics, Packings& packings)
    : keeps_(context.options->keep_choices) {
  const std::vector<std::string>& only = context.options->selection.families;
  for (const auto& each : families()) {
    const std::string name(each->name());
    const bool is_wanted = only.empty() || each->is_baseline() || std::ranges::find(only, name) != only.end();
    if (is_wanted && each->serves(spec)) wanted_.emplace(name, identity_of(*each));
  }
  for (const std::int64_t tokens : context.options->tokens) {
    found_[tokens];
    if (context.cache != nullptr) look_up(context, weight, spec, tokens, statistics, packings);
  }
}

void CachedChoices::look_up(const TuneContext& context, const WeightResult& weight, const OperatorSpec& spec,
                            std::int64_t tokens, const SparsityStatistics& statistics, Packings& packings) {
  auto match = context.cache->find_choice(problem_key(context, weight, spec, tokens), context.device.compute_capability,
                                          context.device.sm_count);
  if (!match.ok()) log_debug("the cache was not read: {}", match.status().message());
  if (!match.ok() || match->quality == MatchQuality::kNone) return;
  const ChoiceRecord& record = match->choice;
  Found& found = found_[tokens];
  found.quality = match->quality;
  BucketChoice& choice = found.choice;
  choice.spec = spec;
  choice.tokens = tokens;
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
                 (record.goal == goal_of(*context.options) || context.options->keep_choices) &&
                 record.nvrtc_version == context.kernels->nvrtc_version() &&
                 (record.evidence == "measured" || context.predict);
  const auto config = Config::parse(record.config);
  if (!config.ok() || !wanted_.contains(config->family)) return;
  found.made = remake(context, *config, {spec, tokens, context.device}, statistics, packings, choice);
  const bool same_code =
      record.closure_hash == closure_hash_of(choice.candidate) && record.packer_version == choice.packer_version;
  found.valid = found.counts && found.made && (same_code || context.options->keep_choices) &&
                kernels_ready(context, choice.candidate);
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
  if (keeps_ || !all_valid(/*complete_ones=*/true)) return names;
  for (const auto& [name, identity] : wanted_) {
    if (!compared_with(identity)) names.push_back(name);
  }
  return names;
}

std::optional<std::string> CachedChoices::families_of_choice(std::int64_t tokens) const {
  const Found& found = found_.at(tokens);
  if (keeps_ && found.valid) return fmt::format("{}", fmt::join(found.families, ","));
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

Result<Candidate> generate_candidate(const TuneContext& context, const Config& config, const Problem& problem,
                                     const PackedWeight& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(Candidate candidate, family(config.family)->generate(config, problem, packed));
  context.launch(candidate.plan);
  return candidate;
}

ProblemKey problem_key(const TuneContext& context, const WeightResult& weight, const OperatorSpec& spec,
                       std::int64_t tokens) {
  return {weight.pattern_hash, spec.name(), tokens, context.device.device_class(), context.options->timing.name()};
}

void store_choice(const TuneContext& context, const WeightResult& weight, const BucketChoice& choice,
                  const std::string& families) {
  if (context.cache == nullptr) return;
  ChoiceRecord record;
  record.key = problem_key(context, weight, choice.spec, choice.tokens);
  record.compute_capability = context.device.compute_capability;
  record.sm_count = context.device.sm_count;
  record.kind = "generated";
  record.config = choice.candidate.config.text();
  record.packing = choice.candidate.packing;
  record.packer_version = choice.packer_version;
  record.closure_hash = closure_hash_of(choice.candidate);
  record.nvrtc_version = context.kernels->nvrtc_version();
  record.evidence = choice.evidence;
  record.reason = choice.reason;
  record.families = families;
  record.goal = goal_of(*context.options);
  record.us = choice.timing.median_us;
  record.q1_us = choice.timing.q1_us;
  record.q3_us = choice.timing.q3_us;
  record.dense_us = choice.dense_us;
  record.complete = choice.complete;
  record.budget_s = context.options->budget_s;
  (void)context.cache->put_choice(record);  // the cache counts what it cannot write
}

}  // namespace sparsmith
