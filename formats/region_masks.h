// The region_masks format: the pattern of a weight alone, in pairs of bands for tensor cores
// (formats/region_masks_layout.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sparsmith {

// The pattern alone decides the bytes: 516 a tile. Weights are of fp16 or bf16, and have fewer than 2^31 nonzeros.
//   facts: "regions", "tiles", "nonzeros".
struct RegionMasksPacking {
  static constexpr int kLeastTiles = 8;
  static constexpr int kMostTiles = 22;
  int tiles = 20;  // of a region at most: an even number between these

  std::string name() const;  // "region_masks_t20"
  static std::optional<RegionMasksPacking> named(std::string_view name);
};

}  // namespace sparsmith
