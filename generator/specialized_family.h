// The specialized family: the scatter format, by warps of three roles: producing warps make tiles of W dense in shared
// memory, loading warps bring X there, and one warpgroup multiplies them with the asynchronous tensor cores of sm_90
// (snippets/kernels/specialized.cuh has the device side). For 16-bit values and 50 to 95 % zeros.
//
// Inf and NaN in X: where a sum is not finite, the block computes its sums again from the nonzeros alone, so a zero
// weight contributes nothing, as in the scatter family.
//
// Three files: specialized_family.cc says the parameters, the rules and the packing; specialized_kernel.cc makes
// kernels and launch plans; specialized_cost.cc predicts.
#pragma once

#include "formats/scatter.h"
#include "generator/family.h"
#include "generator/scatter_family.h"

namespace sparsmith {

// A config with its values named.
struct SpecializedConfig {
  static constexpr int kTileRows = 64;
  static constexpr int kLoaders = 4;  // warps that load X

  ScatterEntry entry;
  int min_rounds;     // of every tile
  int max_rounds;     // that registers hold; a tile with more loads them again
  int token_tile;     // of a multiplication
  int row_tiles;      // of a block
  int warpgroups;     // that multiply
  int producers;      // warps that make tiles dense
  int tile_buffers;   // tiles that each of them has room for
  int whole_tiles;    // 1: a tile is cleared as a whole, not entry by entry
  int stages;         // of X
  int stage_columns;  // of X, a multiple of 64
  int column_parts;   // blocks of a cluster, which share out the columns

  explicit SpecializedConfig(const Config& config);
  ScatterPacking packing() const { return {entry, kTileRows, min_rounds, ScatterColumns::kNatural}; }
  int rows() const { return row_tiles * kTileRows; }
  int threads() const { return (warpgroups * 4 + producers + kLoaders) * 32; }
  std::int64_t shared_bytes() const;
  // An estimate of the registers a thread needs, of the role that needs most.
  int registers() const;
  int missing_registers(const DeviceProperties& device) const;  // of them, that a block does not leave to a thread
};

class SpecializedFamily : public Family {
 public:
  std::string name() const override { return "specialized"; }
  double multiplied_share() const override { return 1; }
  std::vector<Parameter> parameters() const override;
  std::vector<Rule> rules() const override;
  std::string packing_of_rows(const Config& config, const Problem& problem) const override;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const override;
  double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const override;
};

}  // namespace sparsmith
