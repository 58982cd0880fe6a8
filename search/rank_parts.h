// Tensor parallelism: weights are cut before they are tuned, all parts of all ranks are tuned in one run, and each rank
// gets a tuned file with its parts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "matrix/model_analysis.h"
#include "matrix/model_file.h"
#include "runtime/tuned_file.h"
#include "search/weight_input.h"

namespace sparsmith {

struct RankPart {
  std::string weight;  // whose part it is: its name in the rank's file
  int rank = 0;
  std::size_t set = 0;  // of RankParts::sets
  WeightCut cut;
};

struct RankParts {
  struct Set {
    std::string name;
    std::size_t weights = 0;  // members of groups are counted
  };
  int ranks = 1;
  std::vector<Set> sets{};                  // the splits
  std::map<std::string, RankPart> parts{};  // by the names in a run's report: "layers.0.up.weight [rank 1 of 4]"
};

// Cuts the weights of the analysis' splits where the nonzeros of all members together are about the same for each rank
// (balanced_boundaries()), and puts their parts in their places. Reads each of these weights once. A group of members
// that are cut becomes a group of their parts. `model` must outlive the weights.
//   Errors: those of ModelFile::read(); kInvalidArgument for an epilogue that a part cannot have.
Result<RankParts> cut_for_ranks(const ModelFile& model, const ModelAnalysis& analysis, int ranks,
                                const Epilogue& default_epilogue, std::vector<WeightInput>& weights);

// The splits of which some part is not in `contents`, those of a run over all ranks. No rank may have them: readers of
// cut activations need all parts.
std::vector<std::string> incomplete_splits(const TunedContents& contents, const RankParts& parts);

// What a rank's file holds of `contents`: its parts of all complete splits, weights that are not cut, and their
// kernels. Views stay those of `contents`.
TunedContents contents_of_rank(const TunedContents& contents, const RankParts& parts, int rank);

// "m.rank1.tuned.safetensors" for "m.tuned.safetensors", "m.rank1.st" for "m.st".
std::string path_of_rank(const std::string& path, int rank);

}  // namespace sparsmith
