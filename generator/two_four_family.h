// The two_four family: the two_four format, multiplied as stored by sparse tensor cores (snippets/kernels/two_four.cuh
// has the device side). For 16-bit weights with at most two nonzeros in each aligned group of four columns, and few
// tokens.
//
// Groups with fewer nonzeros multiply X by 0, but a weight that is not stored contributes nothing, also where X holds
// Inf or NaN: a sum that is not finite is added up again.
//
// Three files: two_four_family.cc says the parameters, the rules and the packing; two_four_kernel.cc makes kernels and
// launch plans; two_four_cost.cc predicts.
#pragma once

#include "formats/two_four.h"
#include "generator/family.h"

namespace sparsmith {

// A two_four config with its values named.
struct TwoFourConfig {
  int tiles;          // of 16 rows, that a warp owns
  int token_tiles;    // of 8 tokens
  int row_warps;      // side by side, with so many rows each
  int warps;          // that share out K, for each of them
  int stages;         // slots of a warp's ring; fewer where they do not fit
  bool bulk_copies;   // strips come by bulk copies, from sm_90 on
  int blocks_per_sm;  // that registers and shared memory leave room for
  int column_parts;   // of K
  bool cluster;       // adds up the sums of several parts; otherwise a second kernel does
  bool relayout;      // of X, to operands, by a launch in front

  explicit TwoFourConfig(const Config& config);
  int warp_rows() const { return 16 * tiles; }
  int rows() const { return row_warps * warp_rows(); }  // of a block
  int tokens() const { return 8 * token_tiles; }
  int threads() const { return 32 * row_warps * warps; }
  std::int64_t strip_bytes() const;  // of a warp
  // Slots of a ring that fit: 1 to `stages`. The legal rules see to it that 1 does.
  int stages_that_fit(const DeviceProperties& device) const;
  // Shared memory of a block with rings of so many slots: the rings, whose place the warps' sums take; what other
  // blocks of a cluster send; the barriers of bulk copies.
  std::int64_t sent_offset(int ring_stages) const;
  std::int64_t barriers_offset(int ring_stages) const;
  std::int64_t shared_bytes(int ring_stages) const;
  // That a thread needs, as ptxas says for sm_90.
  int registers(bool token_major) const;
};

class TwoFourFamily : public Family {
 public:
  std::string name() const override { return "two_four"; }
  double multiplied_share() const override { return 0.5; }
  std::vector<Parameter> parameters() const override;
  std::vector<Rule> rules() const override;
  std::string packing_of_rows(const Config& config, const Problem& problem) const override;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const override;
  double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const override;
};

}  // namespace sparsmith
