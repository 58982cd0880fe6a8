// The gather family: the panel format's tasks, and rows of X gathered from global memory through L1 and L2
// (snippets/kernels/gather.cuh has the device side).
//
// It needs no staging and knows no largest K: for weights so sparse that filling a panel costs more than it saves, for
// many columns, and for wide rows of X. X is read feature-major; token-major X is turned by a launch of its own.
//
// Three files: gather_family.cc says the parameters, the rules and the packing; gather_kernel.cc makes kernels and
// launch plans; gather_cost.cc predicts.
#pragma once

#include "formats/panel.h"
#include "generator/family.h"

namespace sparsmith {

// A gather config with its values named.
struct GatherConfig {
  int token_lanes;     // of a team, 16 bytes of a row of X each
  int segment_lanes;   // teams of a segment
  int segment_length;  // nonzeros; longer rows are cut
  int sweep_columns;   // tasks in the order of blocks of so many columns, to which L1 is kept; 0: not
  int row_parts;       // blocks that share out the rows
  int threads_per_block;
  int depth;  // steps that a warp loads ahead
  int ahead;  // 1: the rows of the next step are on their way while a step is multiplied

  explicit GatherConfig(const Config& config);
  PanelPacking packing(const Problem& problem) const;
  std::int64_t tile_tokens(DataType type) const;  // of a team
};

class GatherFamily : public Family {
 public:
  std::string name() const override { return "gather"; }
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
