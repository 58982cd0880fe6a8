// The specialized family: the scatter format, by warps of three roles: producing warps make tiles of W dense in shared
// memory, loading warps bring X there, and one warpgroup multiplies them with the asynchronous tensor cores of sm_90
// (snippets/kernels/specialized.cuh has the device side). For 16-bit values and 50 to 95 % zeros.
//
// Inf and NaN in X: where a sum is not finite, the block computes its sums again from the nonzeros alone, so a zero
// weight contributes nothing, as in the scatter family.
#pragma once

#include "generator/families/scatter_parts.h"

namespace sparsmith {

// A config with its values named.
struct SpecializedConfig : WarpgroupConfig {
  using WarpgroupConfig::WarpgroupConfig;
  static constexpr int kLoaders = 4;  // warps that load X

  int token_tile = at("token_tile");        // of a multiplication
  int producers = at("producers");          // warps that make tiles dense
  int stages = at("stages");                // of X
  int stage_columns = at("stage_columns");  // of X, a multiple of 64

  ScatterPacking packing() const { return {entry, kTileRows, min_rounds, ScatterColumns::kNatural}; }
  int threads() const { return (warpgroups * 4 + producers + kLoaders) * 32; }
  std::int64_t shared_bytes() const;
  // An estimate of the registers a thread needs, of the role that needs most.
  int registers() const;
  int missing_registers(const DeviceProperties& device) const {
    return sparsmith::missing_registers(registers(), threads(), device);
  }
};

const Family& specialized_family();

}  // namespace sparsmith
