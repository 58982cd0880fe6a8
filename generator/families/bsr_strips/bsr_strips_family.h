// The bsr_strips family: the warps of a block of threads multiply the columns that their rows need of strips of X,
// which all of them read (snippets/kernels/bsr_strips.cuh has the device side). For 16-bit weights that were pruned in
// blocks below 64 rows.
//
// Elements that the weight does not hold contribute nothing to the results, even if X holds Inf or NaN: sums that are
// not finite are added up again.
#pragma once

#include "formats/bsr_strips.h"
#include "generator/family.h"

namespace sparsmith {

// A bsr_strips config with named values.
struct BsrStripsConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  int tiles = at("tiles");                // of 16 rows, of a warp
  int rows = at("rows");                  // of a block of threads
  int token_tile = at("token_tile");      // tokens of a block of threads
  int column_parts = at("column_parts");  // blocks of a cluster that share out the columns

  BsrStripsPacking packing() const { return {tiles}; }
  int warps() const { return rows / packing().rows(); }  // that multiply
  // Idle warps leave their registers to those that multiply (BsrStripsKernel::kMovesRegisters).
  bool moves_registers() const { return rows * token_tile == 256 * 128; }
  int threads() const { return (warps() + (moves_registers() ? 4 : 1)) * 32; }
  int stages() const;                 // as many as shared memory has room for
  std::int64_t shared_bytes() const;  // BsrStripsKernel::kSharedBytes
};

const Family& bsr_strips_family();

}  // namespace sparsmith
