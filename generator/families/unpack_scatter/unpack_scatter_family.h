// The unpack_scatter family: a scatter weight is made dense in the workspace (snippets/kernels/unpack_scatter.cuh), and
// the device's library multiplies by it. For 16-bit weights whose scatter packing serves fewer tokens.
#pragma once

#include "generator/families/scatter_parts.h"
#include "generator/family.h"

namespace sparsmith {

// An unpack_scatter config with its values named.
struct UnpackScatterConfig : ScatterListConfig {
  using ScatterListConfig::ScatterListConfig;
  static constexpr int kWarps = 8;  // of a block, with a tile each
  static constexpr int kTileRows = 64;

  ScatterPacking packing() const { return {entry, kTileRows, min_rounds, ScatterColumns::kNatural}; }
};

const Family& unpack_scatter_family();

}  // namespace sparsmith
