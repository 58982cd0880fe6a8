// The wgmma family: the scatter format, for 32 tokens and more: four warps make a tile of W each dense in shared memory
// and multiply them together by 64 tokens, with the asynchronous tensor cores of sm_90 (snippets/kernels/wgmma.cuh has
// the device side). For 16-bit values and 50 to 95 % zeros.
//
// Inf and NaN in X: where a sum is not finite, the warpgroup computes its sums again from the nonzeros alone, so a zero
// weight contributes nothing, as in the scatter family.
//
// Three files: wgmma_family.cc says the parameters, the rules and the packing; wgmma_kernel.cc makes kernels and launch
// plans; wgmma_cost.cc predicts.
#pragma once

#include "formats/scatter.h"
#include "generator/family.h"
#include "generator/scatter_family.h"

namespace sparsmith {

// A config with its values named.
struct WgmmaConfig {
  static constexpr int kTokens = 64;  // of a multiplication
  static constexpr int kTileRows = 64;

  ScatterEntry entry;
  int min_rounds;    // of every tile
  int max_rounds;    // that registers hold; a tile with more loads them again
  int row_tiles;     // of a block
  int warpgroups;    // of a block: they share out the columns
  int whole_tiles;   // 1: a tile is cleared as a whole, not entry by entry
  int taken_tiles;   // column tiles whose X registers hold
  int tile_buffers;  // tiles that a warp has room for: 2 let it scatter one while another is multiplied
  int column_parts;  // blocks that share out the columns
  int cluster_sums;  // 1: they are a cluster, which adds up; 0: a second kernel does

  explicit WgmmaConfig(const Config& config);
  ScatterPacking packing() const { return {entry, kTileRows, min_rounds}; }
  int rows() const { return row_tiles * kTileRows; }
  int cluster() const { return cluster_sums != 0 ? column_parts : 1; }  // its blocks
  bool second_kernel() const { return column_parts > cluster(); }
  std::int64_t shared_bytes() const;
  // Those that blocks fit on, one to each.
  std::int64_t multiprocessors(const DeviceProperties& device) const;
  // An estimate of the registers a thread needs: sums, X, the entries of a tile or two, and the rest.
  int registers() const;
  int missing_registers(const DeviceProperties& device) const;  // of them, that a block does not leave to a thread
};

class WgmmaFamily : public Family {
 public:
  std::string name() const override { return "wgmma"; }
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
