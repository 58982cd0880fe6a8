// The wgmma family: the scatter format, for 32 tokens and more: four warps make a tile of W each dense in shared memory
// and multiply them together by 64 tokens, with the asynchronous tensor cores of sm_90 (snippets/kernels/wgmma.cuh has
// the device side). For 16-bit values and 50 to 95 % zeros.
//
// Inf and NaN in X: where a sum is not finite, the warpgroup computes its sums again from the nonzeros alone, so a zero
// weight contributes nothing, as in the scatter family.
#pragma once

#include "generator/families/scatter_parts.h"

namespace sparsmith {

// A config with its values named.
struct WgmmaConfig : WarpgroupConfig {
  using WarpgroupConfig::WarpgroupConfig;
  static constexpr int kTokens = 64;  // of a multiplication

  int taken_tiles = at("taken_tiles");  // column tiles whose X registers hold
  int cluster_sums = at("sum");         // 1: they are a cluster, which adds up; 0: a second kernel does

  ScatterPacking packing() const { return {entry, kTileRows, min_rounds}; }
  int cluster() const { return cluster_sums != 0 ? column_parts : 1; }  // its blocks
  bool second_kernel() const { return column_parts > cluster(); }
  int threads() const { return warpgroups * 128; }
  std::int64_t shared_bytes() const;
  // Those that blocks fit on, one to each.
  std::int64_t multiprocessors(const DeviceProperties& device) const;
  // An estimate of the registers a thread needs: sums, X, the entries of a tile or two, and the rest.
  int registers() const;
  int missing_registers(const DeviceProperties& device) const {
    return sparsmith::missing_registers(registers(), threads(), device);
  }
};

const Family& wgmma_family();

}  // namespace sparsmith
