// Choices of earlier runs for one operator of a weight: taken as they are where everything they stand on is the same,
// otherwise a hint (the incumbent of the race). Where all that is new is kernel families, or values of their
// parameters, these alone are searched.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "matrix/sparsity_statistics.h"
#include "search/packings.h"
#include "search/weight_tuner.h"

namespace sparsmith {

class CachedChoices {
 public:
  // Looks up every N of the options. Packs what choices name, so that their candidates can be made again.
  CachedChoices(const TuneContext& context, const WeightResult& weight, const OperatorSpec& spec,
                const SparsityStatistics& statistics, Packings& packings);

  // Whether every N has a choice for exactly this device class, from the same code, compiler and packer, from a search
  // that was not cut short, measured (or, where this run can only predict, predicted), among all the families of the
  // options, for the same goal. With the option keep_choices code, packer, families and goal may have changed.
  bool complete() const;
  // The same where searches that were cut short, or among fewer families, count too.
  bool at_hand() const;
  // Families of the options that some N's choice was not compared with, where complete() lacks nothing else.
  std::vector<std::string> new_families() const;
  std::vector<BucketChoice> take();  // REQUIRES: at_hand()

  // What the cache has for N, whatever it stands on; nullptr when that is nothing, or can no longer be generated.
  const BucketChoice* incumbent(std::int64_t tokens) const;
  MatchQuality quality(std::int64_t tokens) const;

  // What a choice of this run is compared with, as the cache has it. Nothing: the cache has one that was compared with
  // families which this run leaves out, and which is to stay.
  std::optional<std::string> families_of_choice(std::int64_t tokens) const;

 private:
  struct Found {
    MatchQuality quality = MatchQuality::kNone;
    BucketChoice choice;
    std::set<std::string> families;  // that it was compared with, as identity_of() has them
    bool counts = false;             // whatever code it is of
    bool made = false;               // the choice could be made again
    bool valid = false;              // and nothing it stands on has changed
  };
  bool all_valid(bool complete_ones) const;
  bool compared_with(const std::string& identity) const;  // the choices of every N
  void look_up(const TuneContext& context, const WeightResult& weight, const OperatorSpec& spec, std::int64_t tokens,
               const SparsityStatistics& statistics, Packings& packings);

  std::map<std::int64_t, Found> found_;
  std::map<std::string, std::string> wanted_;  // families of the options: identities by name
  bool keeps_ = false;                         // the option keep_choices
};

// As Family::generate(), with the launches that the options ask for.
Result<Candidate> generate_candidate(const TuneContext& context, const Config& config, const Problem& problem,
                                     const PackedWeight& packed);

ProblemKey problem_key(const TuneContext& context, const WeightResult& weight, const OperatorSpec& spec,
                       std::int64_t tokens);

// Writes a choice of this run, with what it was compared with.
void store_choice(const TuneContext& context, const WeightResult& weight, const BucketChoice& choice,
                  const std::string& families);

}  // namespace sparsmith
