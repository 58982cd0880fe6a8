// What was fastest for weights of like statistics. The layers of a model have few shapes, and pruning leaves them much
// alike: after the first of a kind, a few candidates are enough for the others.
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
#include "search/candidate_selection.h"
#include "search/contender.h"

namespace sparsmith {

// By what weights are compared.
struct WeightProfile {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::vector<std::int64_t> row_length_histogram;  // as SparsityStatistics has it
};
WeightProfile profile_of(const SparsityStatistics& statistics);

// 0 for equal ones. Up to 1 they are near: of one shape, densities within 5 %, histograms that differ in at most a
// tenth of the rows. Infinite where shapes differ by more than a factor of two: nothing is to be learnt from each
// other.
double distance(const WeightProfile& a, const WeightProfile& b);

// One operator's memory on one device, of this run and of the cache's. One thread at a time.
class Transfer {
 public:
  // `cache` may be null, or it outlives the object. `key`: its operator, device class and timing policy count.
  Transfer(Cache* cache, ProblemKey key);

  struct Tried {
    Config config;
    std::string packing;
    double us = 0;
    bool chosen = false;  // not always the fastest: few packings serve all N
  };
  // What a full search of a weight measured at one N. `chosen`: the choice's config as text.
  void remember(const std::string& pattern_hash, const WeightProfile& profile, std::int64_t tokens,
                const std::vector<Contender>& contenders, const std::string& chosen);

  struct Hint {
    bool near = false;
    // For each N: the nearest weight's choice and its fastest, and the fastest of each packing that was fastest or
    // chosen at some N.
    std::map<std::int64_t, std::vector<Config>> configs;
    std::map<std::int64_t, double> fastest_us;  // of that weight, for each N
  };
  // Of the nearest weight that is known at all these N; nothing where there is none.
  Hint find(const std::string& pattern_hash, const WeightProfile& profile, const std::vector<std::int64_t>& tokens);

  // Of the baseline, whose times hang on shape and N alone: the configs that were fastest for a weight of this shape in
  // this run, or might have been. Empty: not known.
  std::vector<Config> baseline(const WeightProfile& profile, std::int64_t tokens) const;

 private:
  struct Known {
    WeightProfile profile;
    std::map<std::int64_t, std::vector<Tried>> tried;  // fastest first; empty: nothing is known at that N
  };
  void remember_baseline(const WeightProfile& profile, std::int64_t tokens, const std::vector<Contender>& contenders);
  const std::vector<Tried>& tried_of(const std::string& pattern_hash, Known& known, std::int64_t tokens);

  Cache* cache_;
  ProblemKey key_;
  std::map<std::string, Known> known_;                                                            // by pattern hash
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<Config>> baseline_;  // by rows, columns, N
};

// What the weights of a run learn from each other, in whichever order they are searched. Thread-safe.
class TransferMemory {
 public:
  // `cache` may be null, or it outlives the object.
  explicit TransferMemory(Cache* cache) : cache_(cache) {}

  // What there is to learn for the weight at `key`. Where that is not from a near one and it `searches`, the weight
  // counts as being searched in full, until finished(); nothing then: a near weight is being searched in full, and
  // there will be more to learn when it is done.
  std::optional<Transfer::Hint> ask(const ProblemKey& key, const WeightProfile& profile,
                                    const std::vector<std::int64_t>& tokens, bool searches);
  // Whether ask() would give nothing, of any operator.
  bool must_wait(const WeightProfile& profile) const;
  // As Transfer::remember().
  void remember(const ProblemKey& key, const WeightProfile& profile, const std::vector<Contender>& contenders,
                const std::string& chosen);
  // As Transfer::baseline().
  std::vector<Config> baseline(const ProblemKey& key, const WeightProfile& profile) const;
  // The search of the weight has ended, whatever became of it.
  void finished(const ProblemKey& key);

 private:
  bool is_searched(const WeightProfile& profile, const std::string& operator_name) const;

  Cache* cache_;
  mutable std::mutex mutex_;                  // guards what follows
  std::map<std::string, Transfer> memories_;  // by operator
  struct Searched {
    ProblemKey key;
    WeightProfile profile;
  };
  std::vector<Searched> searched_;  // in full, just now
};

// What of the hint is of these families; all of it where none are named. It is near where every N has some of it left.
Transfer::Hint of_families(Transfer::Hint hint, const std::vector<std::string>& families);

// Puts the hint's configs first, as far as they break no rule for this weight; of a near weight's, all but the few
// best predicted of the others are left out.
void apply_hint(const Transfer::Hint& hint, const Problem& problem, const SparsityStatistics& statistics,
                CandidateSelection& selection);

}  // namespace sparsmith
