// The bsr family: blocks of a weight that hold a nonzero, multiplied whole by tensor cores (snippets/kernels/bsr.cuh
// has the device side). For 16-bit weights that were pruned in blocks; and, with every block stored, for weights so
// small that their time is one of launches and of loads that wait for each other.
//
// What tensor cores make of elements that the weight does not hold counts for nothing, also where X holds Inf or NaN: a
// sum that is not finite is added up again.
//
// Three files: bsr_family.cc says the parameters, the rules and the packing; bsr_kernel.cc makes kernels and launch
// plans; bsr_cost.cc predicts.
#pragma once

#include "formats/bsr.h"
#include "generator/family.h"

namespace sparsmith {

// A bsr config with its values named.
struct BsrConfig {
  int tiles;        // of 16 rows, of a block of W
  int token_tiles;  // of 8 tokens, that a block of threads does
  int warps;        // that share out a row of blocks
  int ahead;        // blocks of W that a warp loads together
  bool all;         // every block is stored

  explicit BsrConfig(const Config& config);
  BsrPacking packing() const { return {tiles, all}; }
  int rows() const { return 16 * tiles; }
  int tokens() const { return 8 * token_tiles; }
  int threads() const { return 32 * warps; }
  // Of the warps' sums: FragmentSums::kSharedBytes.
  std::int64_t shared_bytes() const { return std::int64_t{warps} * tokens() * (rows() + 4) * 4; }
  // That a thread needs, as ptxas says for sm_90.
  int registers() const { return 40 + 4 * tiles * token_tiles + ahead * (8 * tiles + 4 * token_tiles + 2); }
};

class BsrFamily : public Family {
 public:
  std::string name() const override { return "bsr"; }
  double multiplied_share() const override { return 1; }
  std::vector<Parameter> parameters() const override;
  std::vector<Rule> rules() const override;
  std::string packing_of_rows(const Config& config, const Problem& problem) const override;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const override;
  std::vector<Ablation> ablations(const Config& config) const override;
  Result<Candidate> generate_without(Ablation part, const Config& config, const Problem& problem,
                                     const PackedWeight& packed) const override;
  double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const override;
};

}  // namespace sparsmith
