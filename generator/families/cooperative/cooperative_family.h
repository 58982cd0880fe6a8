// The cooperative family: the scatter format for many tokens, by persistent blocks of three warpgroups: two multiply
// 128 rows by 128 or 256 tokens on the tensor cores of sm_90, one makes tiles of W dense for them. X comes as boxes,
// from each block of a cluster to both (snippets/kernels/cooperative.cuh has the device side). For 16-bit values,
// token-major.
//
// Inf and NaN in X: where a sum is not finite, the warpgroup computes its sums again from the nonzeros alone, so a zero
// weight contributes nothing.
#pragma once

#include "generator/families/scatter_parts.h"

namespace sparsmith {

// A config with its values named.
struct CooperativeConfig : DenseTileConfig {
  using DenseTileConfig::DenseTileConfig;
  static constexpr int kClusterBlocks = 2;
  static constexpr int kBlockRows = 2 * kTileRows;
  static constexpr int kThreads = 384;

  int token_tile = at("token_tile");
  int stages = at("stages");  // of 64 columns of X and W

  // That of the specialized family: both read X in the order of its columns.
  ScatterPacking packing() const { return {entry, kTileRows, min_rounds, ScatterColumns::kNatural}; }
  int panel_tiles() const { return 2 * kClusterBlocks / column_parts; }              // row blocks of a cluster
  int box_tokens() const { return column_parts > 1 ? token_tile : token_tile / 2; }  // that a block brings
  std::int64_t shared_bytes() const;
  // Of a thread that makes tiles: entries of two of them, and where two stages are to be cleared.
  int registers() const {
    const int places = bytes() ? max_rounds / 4 : (max_rounds + 1) / 2;
    return 2 * list_registers() + (whole_tiles != 0 ? 0 : 2 * places) + 60;
  }
};

const Family& cooperative_family();

}  // namespace sparsmith
