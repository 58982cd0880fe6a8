// The region_masks format, for the packer and the kernels. Freestanding: includes nothing.
//
// The pattern of a weight alone, for an operator that does not read values. A panel is 16 bands of 32 rows. A region
// has up to four times 64 columns of a panel, and up to T tiles there: what a block of threads computes at once. A tile
// is 32 columns of two bands of the panel: bands that hold an element in these columns stand in pairs; an odd last one
// has another one that holds nothing there. A panel has pairs of regions, which bring its rows together; a panel
// without elements has one pair, without tiles. The numbers of tiles of a panel's regions are about equal.
//
//   region_panels  uint32[regions]: the panel of each region. Regions 2 i and 2 i + 1 have the same one. Pairs with the
//                  most tiles come first
//   region_tiles   uint32[regions + 1]: where the tiles of each region begin
//   columns        uint32[regions][4]: which 64 columns of the weight, or kNoColumns behind the last one
//   tiles          uint32[tiles]: the first band, the second band << 8, 32 columns of the region's << 16: 0 and 1 are
//                  those of its first 64
//   masks          uint32[tiles][64]: bit c: whether the row holds column c of the tile. Rows 0 to 31 are of the first
//   band firsts         uint32[tiles][64]: the place in the order of CSR of a row's first element in the tile; 0 if it
//   has
//                  none. The element of bit b has the place first + popcount(bits below b)
#pragma once

namespace sparsmith::region_masks {

constexpr int kBandRows = 32;
constexpr int kBands = 16;  // of a panel
constexpr int kPanelRows = kBands * kBandRows;
constexpr int kTileRows = 2 * kBandRows;
constexpr int kTileColumns = 32;
constexpr int kBoxColumns = 64;
constexpr int kBoxes = 4;  // of a region
constexpr unsigned kNoColumns = ~0U;

}  // namespace sparsmith::region_masks
