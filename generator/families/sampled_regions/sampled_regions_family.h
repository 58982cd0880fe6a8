// The sampled_regions family: sddmm for many tokens on the region_masks format; clusters of two blocks of threads
// multiply pairs of bands that hold an element (snippets/kernels/sampled_regions.cuh has the device side). For 16-bit
// weights in training of which most columns meet most rows: pruned in blocks of 32 at 75 % zeros, or of 16 at 90 %.
//
// The kernel is bound by shared memory, from which tensor cores read their operands, and by what L2 sends.
#pragma once

#include "formats/region_masks.h"
#include "generator/family.h"

namespace sparsmith {

// A sampled_regions config with named values.
struct SampledRegionsConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  static constexpr int kClusterBlocks = 2;
  static constexpr int kThreads = 12 * 32;
  static constexpr int kStageTokens = 32;
  static constexpr int kStages = 4;
  int tiles = at("tiles");  // of a warpgroup

  RegionMasksPacking packing() const { return {2 * tiles}; }
  std::int64_t shared_bytes() const;  // SampledRegionsKernel::kSharedBytes
};

const Family& sampled_regions_family();

}  // namespace sparsmith
