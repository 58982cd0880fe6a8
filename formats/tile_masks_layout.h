// The tile_masks format, for the packer and the kernels. Freestanding: includes nothing.
//
// The pattern of a weight alone, for an operator that does not read values: cut into tiles of 64 rows by C columns (32
// or 64). R rows of tiles (1 or 2) are a panel. Tiles of a panel that hold an element in one of its rows are listed in
// groups of up to G columns (128, 256 or 512): what a block of threads computes at once. A group has 64 columns or a
// multiple of it: for C = 32, one of its tiles may be a copy of the last one, which holds nothing. The groups of a
// panel have as many columns as one another, or 64 more. A panel without elements has one group, without tiles.
//
//   group_panels  uint32[groups]: the panel of each group. Those with the most columns come first; of equally many, the
//                 first ones of all panels, then the second ones, and so on
//   group_tiles   uint32[groups + 1]: where the tiles of each group begin
//   columns       uint32[tiles]: the columns of tiles
//   masks         uint32[tiles][R][64][C / 32]: bit c % 32 of word c / 32 of a row: whether the row holds column c
//   firsts        uint32[tiles][R][64]: the place in the order of CSR of a row's first element in the tile; 0 if it
//                 has none. The element of bit b has the place first + popcount(bits below b)
#pragma once

namespace sparsmith::tile_masks {

constexpr int kTileRows = 64;
constexpr int kWordColumns = 32;  // of a word of a mask
constexpr int kUnitColumns = 64;  // columns of a group are a multiple

}  // namespace sparsmith::tile_masks
