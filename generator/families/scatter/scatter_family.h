// The scatter family: the scatter format, and tensor cores that multiply tiles which warps make dense in shared memory
// (snippets/kernels/scatter.cuh has the device side). For 16-bit values, 50 to 95 % zeros and few tokens.
//
// Inf and NaN in X: where a sum is not finite, the warp computes it again from the nonzeros alone, so a zero weight
// contributes nothing, as in every family. A weight that is stored as 0 (or becomes 0 in the operator's type) is a zero
// weight.
#pragma once

#include "generator/families/scatter_parts.h"

namespace sparsmith {

// A scatter config with its values named.
struct ScatterConfig : ScatterListConfig {
  using ScatterListConfig::ScatterListConfig;
  int tile_rows = at("tile_rows");
  int token_tile = at("token_tile");
  int input_columns = at("input_columns");  // of X whose fragments a warp holds
  int warps = at("warps");                  // of a block
  int row_tiles = at("row_tiles");          // that a warp multiplies by the same X
  int parts = at("parts");                  // blocks of a cluster, that share the columns of their rows
  int tiles_ahead =
      at("tiles_ahead");        // that are asked for as far as L2, behind the one that registers are loaded with
  bool relayout = at("input");  // of X, to operands, by a launch in front
  bool natural = at("natural_columns");  // of W, as kernels for many tokens have them

  ScatterPacking packing() const {
    return {entry, tile_rows, min_rounds, natural ? ScatterColumns::kNatural : ScatterColumns::kFragments};
  }
  int tile_columns() const { return packing().tile_columns(); }
  int rows() const { return row_tiles * tile_rows; }  // of a block
  std::int64_t shared_bytes() const;
  std::int64_t resident_blocks(const DeviceProperties& device) const;  // of a multiprocessor, by what they ask for
  // An estimate of the registers a thread needs: sums, X, two tiles' entries, and the rest.
  int sum_registers() const { return rows() / 16 * token_tile / 8 * 4; }
  int input_registers() const { return token_tile * input_columns / 64; }
  int registers() const;
};

const Family& scatter_family();

}  // namespace sparsmith
