// The bsr_wgmma family: warpgroups multiply the blocks of a weight that hold a nonzero by many tokens
// (snippets/kernels/bsr_wgmma.cuh has the device side). For 16-bit weights that were pruned in blocks.
//
// Elements that the weight does not hold contribute nothing to the results, even if X holds Inf or NaN: sums that are
// not finite are added up again.
#pragma once

#include "formats/bsr.h"
#include "generator/family.h"

namespace sparsmith {

// A bsr_wgmma config with named values.
struct BsrWgmmaConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  static constexpr int kBlockRows = 64;
  int block_columns = at("block_columns");
  int token_tile = at("token_tile");  // tokens of a block of threads
  int row_tiles = at("row_tiles");    // rows of blocks of a block of threads

  BsrPacking packing() const { return {.tiles = kBlockRows / 16, .line = block_columns}; }
  int threads() const { return 128 * row_tiles + 64; }
  int stage_bytes() const { return (token_tile + row_tiles * kBlockRows) * block_columns * 2; }
  int stages() const;                 // as many as shared memory has room for
  std::int64_t shared_bytes() const;  // BsrWgmmaKernel::kSharedBytes
};

const Family& bsr_wgmma_family();

}  // namespace sparsmith
