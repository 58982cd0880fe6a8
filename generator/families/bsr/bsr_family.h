// The bsr family: tensor cores multiply the blocks of a weight that hold a nonzero, as a whole
// (snippets/kernels/bsr.cuh has the device side). For 16-bit weights that were pruned in blocks. With every block
// stored, also for weights so small that launches, and loads that wait for each other, take the time.
//
// Elements that the weight does not hold contribute nothing to the results, even if X holds Inf or NaN: a sum that is
// not finite is added up again.
#pragma once

#include "formats/bsr.h"
#include "generator/family.h"

namespace sparsmith {

// A bsr config with named values.
struct BsrConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  int tiles = at("tiles");              // tiles of 16 rows in a block of W
  int token_tiles = at("token_tiles");  // tiles of 8 tokens of a block of threads
  int warps = at("warps");              // warps that share out a row of blocks
  int ahead = at("ahead");              // blocks of W that a warp loads together
  bool all = at("all");                 // every block is stored

  BsrPacking packing() const { return {tiles, all}; }
  int rows() const { return 16 * tiles; }
  int tokens() const { return 8 * token_tiles; }
  int threads() const { return 32 * warps; }
  // Bytes of the warps' sums: FragmentSums::kSharedBytes.
  std::int64_t shared_bytes() const { return std::int64_t{warps} * tokens() * (rows() + 4) * 4; }
  // Registers that a thread needs, by the output of ptxas for sm_90.
  int registers() const { return 40 + 4 * tiles * token_tiles + ahead * (8 * tiles + 4 * token_tiles + 2); }
};

const Family& bsr_family();

}  // namespace sparsmith
