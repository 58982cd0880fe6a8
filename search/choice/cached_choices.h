// Choices of earlier runs for one operator of a weight. They are taken as they are if nothing has changed that they
// depend on; otherwise they are incumbents of the new search. If only families or parameter values are new, only these
// are searched.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "matrix/sparsity_statistics.h"
#include "search/choice/tune_report.h"
#include "search/choice/tune_run.h"
#include "search/trial/packings.h"

namespace sparsmith {

class CachedChoices {
 public:
  // Looks up each N of the options, and packs for the choices, so that their candidates can be made again. `predict`:
  // this weight is not timed. `goal`: of goal_of().
  CachedChoices(const TuneRun& run, bool predict, std::string goal, const WeightResult& weight,
                const OperatorSpec& spec, const SparsityStatistics& statistics, Packings& packings);

  // Whether every N has a choice with this device class, code, compiler, packer and goal, from a complete search among
  // all families of the options, measured (or predicted, if this run can only predict). With the option keep_choices,
  // code, packer, families and goal may differ.
  bool complete() const;
  // The same, but incomplete searches and searches among fewer families count too.
  bool at_hand() const;
  // The families that some N's choice was not compared with, if complete() lacks nothing else.
  std::vector<std::string> new_families() const;
  std::vector<BucketChoice> take();  // REQUIRES: at_hand()

  // The cached choice for N, even if code or compiler have changed; nullptr: none, or it can no longer be generated.
  const BucketChoice* incumbent(std::int64_t tokens) const;
  MatchQuality quality(std::int64_t tokens) const;

  // The families that a choice of this run is compared with, as the cache stores them. Nothing: the cached choice was
  // compared with families that this run leaves out, and stays.
  std::optional<std::string> families_of_choice(std::int64_t tokens) const;

 private:
  struct Found {
    MatchQuality quality = MatchQuality::kNone;
    BucketChoice choice;
    std::set<std::string> families;  // that it was compared with: identities
    bool counts = false;             // but for its code
    bool made = false;               // its candidate could be made again
    bool valid = false;              // and nothing has changed
  };
  bool all_valid(bool complete_ones) const;
  bool compared_with(const std::string& identity) const;  // the choices of every N
  void look_up(const WeightResult& weight, const Problem& problem, const SparsityStatistics& statistics,
               Packings& packings);
  bool kernels_ready(const Candidate& candidate) const;

  const TuneRun& run_;
  const bool predict_;
  const std::string goal_;
  std::map<std::int64_t, Found> found_;
  std::map<std::string, std::string> wanted_;  // families of the options: identities by name
};

ProblemKey problem_key(const TuneRun& run, const WeightResult& weight, const OperatorSpec& spec, std::int64_t tokens);

// What choices depend on beside weight, device and code: one N's is made together with those of the others, and of the
// weight's other operators.
std::string goal_of(const TuneOptions& options, std::span<const OperatorSpec> operators);

// Writes a choice of this run and the families that it was compared with.
void store_choice(const TuneRun& run, const std::string& goal, const WeightResult& weight, const BucketChoice& choice,
                  const std::string& families);

}  // namespace sparsmith
