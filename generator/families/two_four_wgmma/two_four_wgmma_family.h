// The two_four_wgmma family: warpgroups multiply a weight with at most two nonzeros in four by many tokens, on sparse
// tensor cores (snippets/kernels/two_four_wgmma.cuh has the device side). It takes the packing of the two_four family,
// so that one packed weight serves every number of tokens.
//
// Elements that the weight does not hold contribute nothing to the results, even if X holds Inf or NaN: sums that are
// not finite are added up again.
#pragma once

#include "formats/two_four.h"
#include "generator/family.h"

namespace sparsmith {

// A two_four_wgmma config with named values.
struct TwoFourWgmmaConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  int token_tile = at("token_tile");      // tokens of a block of threads
  int row_tiles = at("row_tiles");        // panels of 64 rows of a block of threads
  int column_parts = at("column_parts");  // blocks that share out the columns of an output
  int cluster_sums = at("sum");           // 1: they are a cluster, which adds up; 0: a second kernel does

  int cluster() const { return cluster_sums != 0 ? column_parts : 1; }  // its blocks
  bool second_kernel() const { return column_parts > cluster(); }
  // Idle warps leave their registers to those that multiply (TwoFourWgmmaKernel::kMovesRegisters).
  bool moves_registers() const { return token_tile * row_tiles == 512; }
  int threads() const { return 128 * row_tiles + (moves_registers() ? 128 : 64); }
  int stages() const;                 // as many as shared memory has room for
  std::int64_t shared_bytes() const;  // TwoFourWgmmaKernel::kSharedBytes
};

const Family& two_four_wgmma_family();

}  // namespace sparsmith
