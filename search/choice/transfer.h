// The fastest candidates of similar weights. The layers of a model have few shapes and similar sparsity: after one full
// search, a few candidates are enough for similar weights.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cache/cache.h"
#include "generator/search_space.h"
#include "matrix/sparsity_statistics.h"
#include "search/strategy/candidate_selection.h"
#include "search/trial/trial.h"

namespace sparsmith {

// The statistics by which weights are compared.
struct WeightProfile {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::vector<std::int64_t> row_length_histogram;  // as SparsityStatistics has it
  std::vector<double> structure;  // of SparsityStatistics: block_fill and two_four_legal; empty: not known
};
WeightProfile profile_of(const SparsityStatistics& statistics);
// What the cache keeps of a profile beside its counts: WeightRecord::histogram.
std::string histogram_text(const WeightProfile& profile);

// 0: equal. At most 1: near, that is, of one shape, with densities within 5 %, histograms that differ in at most a
// tenth of the rows, and blocks that are filled alike within 20 %. Infinite: shapes differ by more than a factor of
// two, and the weights learn nothing from each other.
double distance(const WeightProfile& a, const WeightProfile& b);

// The memory that the weights of a run share, of this run and of the cache; one for each operator. Thread-safe.
class Transfer {
 public:
  // `cache` may be null, or it outlives the object.
  explicit Transfer(Cache* cache) : cache_(cache) {}

  struct Hint {
    bool near = false;
    // For each N: the nearest weight's choice, its fastest configs, and the fastest config of each packing that was
    // fastest or chosen at some N.
    std::map<std::int64_t, std::vector<Config>> configs;
    std::map<std::int64_t, double> fastest_us;  // of that weight, for each N
  };
  // The hint for the weight at `key`, from the nearest weight that is known at all these N; empty: there is none.
  // Nothing: a near weight is being searched in full; ask again when it is done. If the hint is not from a near weight
  // and the weight `searches`, it counts as being searched in full until finished().
  std::optional<Hint> ask(const ProblemKey& key, const WeightProfile& profile, const std::vector<std::int64_t>& tokens,
                          bool searches);
  // Whether ask() would return nothing for the operator.
  bool must_wait(const WeightProfile& profile, const std::string& operator_name) const;
  // Keeps the times of a full search at the key's N. `chosen`: the choice's config as text.
  void remember(const ProblemKey& key, const WeightProfile& profile, const std::vector<Trial>& trials,
                const std::string& chosen);
  // The baseline's configs that were fastest, within noise, for a weight of this shape at the key's N in this run. The
  // baseline's times depend on shape and N alone. Empty: not known.
  std::vector<Config> baseline(const ProblemKey& key, const WeightProfile& profile) const;
  // The search of the weight has ended, with or without success.
  void finished(const ProblemKey& key);

 private:
  struct Tried {
    Config config;
    std::string packing;
    double us = 0;
    bool chosen = false;  // not always the fastest: few packings serve all N
  };
  struct Known {
    WeightProfile profile;
    std::map<std::int64_t, std::vector<Tried>> tried;  // fastest first; empty: nothing is known at that N
  };
  // Of one operator.
  struct Memory {
    std::map<std::string, Known> known;  // by pattern hash
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<Config>>
        baseline;  // by rows, columns, N
  };
  struct Searched {
    ProblemKey key;
    WeightProfile profile;
  };
  // REQUIRES, all of them: the mutex is held.
  Memory& memory_of(const ProblemKey& key);
  Hint find(const ProblemKey& key, const WeightProfile& profile, const std::vector<std::int64_t>& tokens);
  const std::vector<Tried>& tried_of(const ProblemKey& key, Known& known) const;
  bool is_searched(const WeightProfile& profile, const std::string& operator_name) const;

  Cache* cache_;
  mutable std::mutex mutex_;                // guards what follows
  std::map<std::string, Memory> memories_;  // by operator
  std::vector<Searched> searched_;          // in full, just now
};

// The part of the hint that is of these families; all of it if none are named. It stays near if each N keeps a config.
Transfer::Hint of_families(Transfer::Hint hint, const std::vector<std::string>& families);

// Puts the hint's configs first, if they break no rule for this weight. A near weight's hint leaves only a few of the
// other configs, those with the best predictions.
void apply_hint(const Transfer::Hint& hint, const Problem& problem, const SparsityStatistics& statistics,
                CandidateSelection& selection);

}  // namespace sparsmith
