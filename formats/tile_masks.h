// The tile_masks format: the pattern of a weight alone, in tiles for tensor cores (formats/tile_masks_layout.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sparsmith {

// The pattern alone decides the bytes: 12 a row of a tile of 64 columns, 8 of 32 columns. Weights are of fp16 or bf16,
// and have fewer than 2^31 nonzeros.
//   facts: "groups", "tiles", "nonzeros".
struct TileMasksPacking {
  int columns = 64;         // of a tile: 32 or 64
  int row_tiles = 1;        // rows of tiles of a panel: 1 or 2
  int group_columns = 256;  // of a group at most: 128, 256 or 512

  std::string name() const;  // "tile_masks_c64_r1_g256"
  static std::optional<TileMasksPacking> named(std::string_view name);
};

}  // namespace sparsmith
