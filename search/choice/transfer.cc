#include "search/choice/transfer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "generator/family.h"

namespace sparsmith {
namespace {

constexpr std::size_t kFastest = 2;      // of the near weight, at each N
constexpr std::size_t kPredicted = 1;    // of the present weight, beside them
constexpr std::size_t kFullSearch = 10;  // candidates that a search tries at least, unless a hint made it short
constexpr double kAsFast = 1.05;         // of the baseline's configs
constexpr double kDensity = 0.05;
constexpr double kHistogram = 0.1;
constexpr double kFill = 0.2;
constexpr double kFarthest = 20;  // in units of nearness

double sum_of(const std::vector<std::int64_t>& histogram) {
  double sum = 0;
  for (const std::int64_t count : histogram) sum += static_cast<double>(count);
  return std::max(sum, 1.0);
}

// The share of rows that would have to change their place.
double histogram_distance(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  const double all_a = sum_of(a);
  const double all_b = sum_of(b);
  double difference = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const double share_a = i < a.size() ? static_cast<double>(a[i]) / all_a : 0;
    const double share_b = i < b.size() ? static_cast<double>(b[i]) / all_b : 0;
    difference += std::abs(share_a - share_b) / 2;
  }
  return difference;
}

double density_of(const WeightProfile& profile) {
  return static_cast<double>(std::max<std::int64_t>(profile.nnz, 1)) /
         (static_cast<double>(std::max<std::int64_t>(profile.rows, 1)) *
          static_cast<double>(std::max<std::int64_t>(profile.cols, 1)));
}

// How differently blocks of each size are filled, and whether both are 2:4.
double structure_distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 2 * kFill;
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = std::max(difference, std::abs(std::log(std::max(a[i], 1e-6) / std::max(b[i], 1e-6))));
  return difference;
}

// Earlier versions wrote the histogram alone.
void parse_histogram(const std::string& text, WeightProfile& profile) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return;
  const nlohmann::json none = nlohmann::json::array();
  const auto array_in = [&](const char* key) -> const nlohmann::json& {
    if (!parsed->is_object() || !parsed->contains(key) || !(*parsed)[key].is_array()) return none;
    return (*parsed)[key];
  };
  for (const auto& each : parsed->is_array() ? *parsed : array_in("rows"))
    profile.row_length_histogram.push_back(json_integer(each).value_or(0));
  for (const auto& each : array_in("structure"))
    profile.structure.push_back(each.is_number() ? each.get<double>() : 0.0);
}

}  // namespace

WeightProfile profile_of(const SparsityStatistics& statistics) {
  std::vector<double> structure(statistics.block_fill.begin(), statistics.block_fill.end());
  structure.push_back(statistics.two_four_legal);
  return {statistics.rows, statistics.cols, statistics.nnz, statistics.row_length_histogram, std::move(structure)};
}

std::string histogram_text(const WeightProfile& profile) {
  return fmt::format(R"({{"rows":[{}],"structure":[{:.6g}]}})", fmt::join(profile.row_length_histogram, ","),
                     fmt::join(profile.structure, ","));
}

double distance(const WeightProfile& a, const WeightProfile& b) {
  const auto factor = [](std::int64_t x, std::int64_t y) {
    return std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(x, 1)) /
                              static_cast<double>(std::max<std::int64_t>(y, 1))));
  };
  const double shape = std::max(factor(a.rows, b.rows), factor(a.cols, b.cols));
  if (shape > 1) return std::numeric_limits<double>::infinity();
  const double density = std::abs(std::log(density_of(a) / density_of(b))) / kDensity;
  const double histogram = histogram_distance(a.row_length_histogram, b.row_length_histogram) / kHistogram;
  const double structure = structure_distance(a.structure, b.structure) / kFill;
  // Another shape is never near: grids and waves are others.
  return (shape > 0 ? 1 + 10 * shape : 0) + std::max({density, histogram, structure});
}

Transfer::Memory& Transfer::memory_of(const ProblemKey& key) {
  const auto [place, is_new] = memories_.try_emplace(key.operator_name);
  Memory& memory = place->second;
  if (!is_new || cache_ == nullptr) return memory;
  const auto weights = cache_->weights();
  if (!weights.ok()) {
    log_debug("the cache was not read: {}", weights.status().message());
    return memory;
  }
  for (const WeightRecord& weight : *weights) {
    WeightProfile& profile = memory.known[weight.pattern_hash].profile;
    profile = {weight.rows, weight.cols, weight.nnz, {}, {}};
    parse_histogram(weight.histogram, profile);
  }
  return memory;
}

void Transfer::remember(const ProblemKey& key, const WeightProfile& profile, const std::vector<Trial>& trials,
                        const std::string& chosen) {
  const std::lock_guard lock(mutex_);
  Memory& memory = memory_of(key);
  Known& known = memory.known[key.pattern_hash];
  known.profile = profile;
  std::vector<Tried>& tried = known.tried[key.tokens];
  tried.clear();
  std::vector<std::pair<double, Config>> baseline;
  for (const Trial& trial : trials) {
    if (trial.state != Trial::State::kTimed) continue;
    if (trial.baseline) {
      baseline.emplace_back(trial.timing.median_us, trial.candidate.config);
    } else {
      tried.push_back(
          {trial.candidate.config, trial.identity.packing, trial.timing.median_us, trial.identity.config == chosen});
    }
  }
  std::ranges::stable_sort(tried, {}, &Tried::us);
  std::vector<Config>& configs = memory.baseline[{profile.rows, profile.cols, key.tokens}];
  configs.clear();
  for (const auto& [us, config] : baseline)
    if (us <= kAsFast * std::ranges::min(baseline | std::views::keys)) configs.push_back(config);
}

std::vector<Config> Transfer::baseline(const ProblemKey& key, const WeightProfile& profile) const {
  const std::lock_guard lock(mutex_);
  const auto memory = memories_.find(key.operator_name);
  if (memory == memories_.end()) return {};
  const auto found = memory->second.baseline.find({profile.rows, profile.cols, key.tokens});
  return found == memory->second.baseline.end() ? std::vector<Config>() : found->second;
}

// Of the weight and the N of `key`, which `known` stands for.
const std::vector<Transfer::Tried>& Transfer::tried_of(const ProblemKey& key, Known& known) const {
  const auto [place, is_new] = known.tried.try_emplace(key.tokens);
  std::vector<Tried>& tried = place->second;
  if (!is_new || cache_ == nullptr) return tried;
  const auto measurements = cache_->measurements(key);
  if (!measurements.ok()) return tried;
  std::map<std::string, Tried> last;  // of each config
  for (const MeasurementRecord& each : *measurements) {
    const auto config = Config::parse(each.config);
    if (each.status != MeasurementStatus::kOk || each.median_us <= 0 || !config.ok() || is_baseline(*config)) continue;
    last[each.config] = {*config, each.packing, each.median_us, false};
  }
  // What a hint made short knows less than what the hint came from.
  if (last.size() < kFullSearch) return tried;
  const auto choice = cache_->find_choice(key, 0, 0);
  for (auto& [text, each] : last) {
    each.chosen = choice.ok() && choice->quality == MatchQuality::kExact && choice->choice.config == text;
    tried.push_back(std::move(each));
  }
  std::ranges::stable_sort(tried, {}, &Tried::us);
  return tried;
}

Transfer::Hint Transfer::find(const ProblemKey& key, const WeightProfile& profile,
                              const std::vector<std::int64_t>& tokens) {
  Memory& memory = memory_of(key);
  std::multimap<double, std::string> by_distance;
  for (const auto& [hash, known] : memory.known) {
    const double far = distance(profile, known.profile);
    if (hash != key.pattern_hash && far <= kFarthest) by_distance.emplace(far, hash);
  }
  for (const auto& [far, hash] : by_distance) {
    Known& known = memory.known[hash];
    ProblemKey at = key;
    at.pattern_hash = hash;
    std::set<std::string> packings;
    for (const std::int64_t each : tokens) {
      at.tokens = each;
      const std::vector<Tried>& tried = tried_of(at, known);
      for (std::size_t i = 0; i < tried.size(); ++i) {
        if (i == 0 || tried[i].chosen) packings.insert(tried[i].packing);
      }
    }
    Hint hint;
    hint.near = far <= 1;
    for (const std::int64_t each : tokens) {
      const std::vector<Tried>& tried = known.tried[each];
      if (tried.empty()) break;
      hint.fastest_us[each] = tried.front().us;
      std::set<std::string> missing = packings;
      std::vector<Config>& configs = hint.configs[each];
      for (std::size_t i = 0; i < tried.size(); ++i) {
        if (missing.erase(tried[i].packing) > 0 || i < kFastest || tried[i].chosen) configs.push_back(tried[i].config);
      }
    }
    if (hint.configs.size() == tokens.size()) return hint;
  }
  return {};
}

bool Transfer::is_searched(const WeightProfile& profile, const std::string& operator_name) const {
  return std::ranges::any_of(searched_, [&](const Searched& each) {
    return each.key.operator_name == operator_name && distance(profile, each.profile) <= 1;
  });
}

std::optional<Transfer::Hint> Transfer::ask(const ProblemKey& key, const WeightProfile& profile,
                                            const std::vector<std::int64_t>& tokens, bool searches) {
  const std::lock_guard lock(mutex_);
  Hint hint = find(key, profile, tokens);
  if (hint.near || !searches) return hint;
  if (is_searched(profile, key.operator_name)) return std::nullopt;
  searched_.push_back({key, profile});
  return hint;
}

bool Transfer::must_wait(const WeightProfile& profile, const std::string& operator_name) const {
  const std::lock_guard lock(mutex_);
  return is_searched(profile, operator_name);
}

void Transfer::finished(const ProblemKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(searched_, [&](const Searched& each) {
    return each.key.pattern_hash == key.pattern_hash && each.key.operator_name == key.operator_name;
  });
  if (found != searched_.end()) searched_.erase(found);
}

Transfer::Hint of_families(Transfer::Hint hint, const std::vector<std::string>& families) {
  if (families.empty()) return hint;
  for (auto& [tokens, configs] : hint.configs) {
    std::erase_if(configs,
                  [&](const Config& config) { return std::ranges::find(families, config.family) == families.end(); });
    hint.near = hint.near && !configs.empty();
  }
  return hint;
}

void apply_hint(const Transfer::Hint& hint, const Problem& problem, const SparsityStatistics& statistics,
                CandidateSelection& selection) {
  for (const auto& [tokens, configs] : hint.configs) {
    Problem at = problem;
    at.tokens = tokens;
    std::vector<PredictedConfig> first;
    for (const Config& config : configs) {
      const Family* of = family(config.family);
      if (of != nullptr && of->check(config, at, statistics).ok())
        first.push_back({config, of->predict(config, at, statistics)});
    }
    if (first.empty()) continue;
    std::vector<PredictedConfig>& selected = selection.configs[tokens];
    std::erase_if(selected, [&](const PredictedConfig& predicted) {
      return std::ranges::find(first, predicted.config, &PredictedConfig::config) != first.end();
    });
    if (hint.near && selected.size() > kPredicted) selected.resize(kPredicted);
    selected.insert(selected.begin(), first.begin(), first.end());
  }
}

}  // namespace sparsmith
