// The sampled_wgmma family: sddmm for many tokens on the tile_masks format; warpgroups multiply the tiles of the weight
// that hold an element (snippets/kernels/sampled_wgmma.cuh has the device side). For 16-bit weights in training.
//
// The kernel is bound by tensor cores where most tiles hold an element, and by what L2 sends of X where few do.
#pragma once

#include <algorithm>

#include "formats/tile_masks.h"
#include "generator/family.h"

namespace sparsmith {

// A sampled_wgmma config with named values.
struct SampledWgmmaConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  static constexpr int kTileRows = 64;
  static constexpr int kMostStages = 8;
  int tile_columns = at("tile_columns");    // 32 or 64
  int row_tiles = at("row_tiles");          // rows of tiles of a block of threads
  int group_columns = at("group_columns");  // columns of a block of threads
  bool split = at("split");                 // whether tokens are shared out in parts

  TileMasksPacking packing() const { return {tile_columns, row_tiles, group_columns}; }
  int warpgroups() const { return std::max(row_tiles, group_columns / 256); }
  int threads() const { return 128 * warpgroups() + 32; }
  int stage_tokens() const { return group_columns > 256 ? 32 : 64; }
  int stage_bytes() const { return (row_tiles * kTileRows + group_columns) * stage_tokens() * 2; }
  int stages() const;                 // as many as shared memory has room for, up to kMostStages
  std::int64_t shared_bytes() const;  // SampledWgmmaKernel::kSharedBytes
};

// The number of parts of the tokens that a plan for this problem has.
int sampled_parts(const SampledWgmmaConfig& config, const Problem& problem, const Facts& facts);

const Family& sampled_wgmma_family();

}  // namespace sparsmith
