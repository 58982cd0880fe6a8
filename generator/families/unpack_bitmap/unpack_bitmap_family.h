// The unpack_bitmap family: a bitmap weight is made dense in the workspace (snippets/kernels/unpack_bitmap.cuh), and
// the device's library multiplies by it. For 16-bit weights whose bitmap packing serves fewer tokens.
#pragma once

#include "formats/bitmap.h"
#include "generator/family.h"

namespace sparsmith {

// An unpack_bitmap config with its values named.
struct UnpackBitmapConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  static constexpr int kWarps = 8;  // of a block, with a strip each
  int tiles = at("tiles");          // of 16 rows in a strip
  int run_bits = at("run_bits");    // bits of a word whose values lie together
  bool stored_offsets = at("stored_offsets");

  BitmapPacking packing() const { return {tiles, run_bits, stored_offsets}; }
};

const Family& unpack_bitmap_family();

}  // namespace sparsmith
