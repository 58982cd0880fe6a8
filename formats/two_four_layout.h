// The two_four format, for the packer and the kernels. Freestanding: includes nothing.
//
// For weights in which each aligned group of 1 x 4 elements has at most two nonzeros. Sparse tensor cores multiply them
// as they are (Mishra et al., 2021, "Accelerating Sparse Deep Neural Networks"). Each group has two values, and two
// bits for the place of each value. One array:
//
//   tiles   ordered by panel of 64 rows, then by strip of 64 columns; a strip is a stack of four tiles of 16 x 64. A
//           tile has
//             values     fp16 or bf16 [2][32][8]: for each of two multiplications, 8 values of each lane
//             metadata   uint32[32]: one word per lane
//
// The lanes of a warp hold a tile as the A operands of two mma.sp.m16n8k32. A group of four columns is
//
//   column 16 (2 p + b) + 4 i of the strip, p, b = 0, 1 and i = 0 ... 3
//
// and multiplication q = i / 2 has it as its group u = 4 b + 2 (i % 2) + p. So the multiplication needs from X the 8
// columns from 16 l + 8 q on, which lane 4 g + l loads. The lanes of a pair exchange halves of them
// (prolog/paired_input.cuh). The values of row r of the tile, group u, are the values 2 v and 2 v + 1 of lane 4 (r % 8)
// + u % 4, with v = 2 (u / 4) + r / 8. Those of lane l of multiplication q stand at lane l ^ q. The places of the
// values are in the metadata of lane 4 (r % 8) + 2 q + u / 4, one of the two lanes of multiplication q, from bit 16 (r
// / 8) + 4 (u % 4) on; the word of lane 4 g + 2 q + h stands at 4 g + 2 h + q. The place of the first value is in the
// lower two bits. The first place is always less than the second, as the hardware requires.
//
// Warpgroups multiply 32 columns of X in their order (TwoFourTiles::WideTile). The four words that a lane then needs
// for a multiplication are neighbours here too, and those that eight neighbouring lanes need meet all banks of shared
// memory.
//
// If a group has fewer than two nonzeros, a missing value is kNothing, -0; a -0 of the weight is stored as 0. Rows and
// columns beyond the weight hold nothing.
#pragma once

namespace sparsmith::two_four {

constexpr int kTileRows = 16;
constexpr int kPanelTiles = 4;
constexpr int kPanelRows = kTileRows * kPanelTiles;
constexpr int kStripColumns = 64;
constexpr int kLanes = 32;
constexpr int kFragments = 2;  // multiplications per tile
constexpr int kGroup = 4;      // columns
constexpr int kFragmentBytes = kLanes * 16;
constexpr int kValueBytes = kFragments * kFragmentBytes;
constexpr int kTileBytes = kValueBytes + kLanes * 4;
constexpr int kStripBytes = kPanelTiles * kTileBytes;
constexpr unsigned short kNothing = 0x8000;
constexpr unsigned kFirstPlaces = 0b0100;  // the first two places: the places of an empty group

// The place in a tile of the group of `row` that begins at `column` of the strip. `values`: its two values, in elements
// from the tile's first. `word`: its word of metadata. `bit`: the lowest of its four bits in the word.
struct GroupPlace {
  int values;
  int word;
  int bit;
};
constexpr GroupPlace place_of_group(int row, int column) {
  const int pair = column / 32;
  const int odd = column / 16 % 2;
  const int fragment = column / 8 % 2;
  const int group = 2 * (column / 4 % 2) + pair;  // of the four groups of a lane's register
  const int quad = 4 * (row % 8);
  return {(fragment * kLanes + ((quad + group) ^ fragment)) * 8 + 2 * (2 * odd + row / 8), quad + 2 * odd + fragment,
          16 * (row / 8) + 4 * group};
}

}  // namespace sparsmith::two_four
