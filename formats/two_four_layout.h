// The two_four format as packer and kernels both see it. Freestanding: includes nothing.
//
// For weights of which each aligned group of 1 x 4 elements has at most two nonzeros, which sparse tensor cores
// multiply as they are (Mishra et al., 2021, "Accelerating Sparse Deep Neural Networks"): two values a group, and two
// bits for the place of each. One array:
//
//   tiles   by panels of 64 rows, in each by strips of 64 columns, in each its four tiles of 16 x 64, one below the
//           other; of a tile
//             values     fp16 or bf16 [2][32][8]: for each of two multiplications, each lane's values
//             metadata   uint32[32]: for each lane
//
// The lanes of a warp hold a tile as the A operands of two mma.sp.m16n8k32. A group of four columns is
//
//   column 16 (2 p + b) + 4 i of the strip, p, b = 0, 1 and i = 0 ... 3
//
// and multiplication q = i / 2 has it as its group u = 4 b + 2 (i % 2) + p. So it needs of X the 8 columns
// 16 l + 8 q and on that lane 4 g + l loads, of which the lanes of a pair exchange halves (prolog/paired_input.cuh).
// Row r of the tile, group u: the values are those of lane 4 (r % 8) + u % 4, 2 v and 2 v + 1 with
// v = 2 (u / 4) + r / 8. Their places are bits 16 (r / 8) + 4 (u % 4) and on of the metadata of lane
// 4 (r % 8) + 2 q + u / 4, the first value's in the lower two bits: the two lanes of multiplication q. The first place
// is always less than the second, as the machine wants it.
//
// Where a group has fewer than two nonzeros the value is kNothing, -0; a -0 that the weight does hold is 0. Rows and
// columns beyond the weight hold nothing.
#pragma once

namespace sparsmith::two_four {

constexpr int kTileRows = 16;
constexpr int kPanelTiles = 4;
constexpr int kPanelRows = kTileRows * kPanelTiles;
constexpr int kStripColumns = 64;
constexpr int kLanes = 32;
constexpr int kFragments = 2;  // multiplications of a tile
constexpr int kGroup = 4;      // columns
constexpr int kFragmentBytes = kLanes * 16;
constexpr int kValueBytes = kFragments * kFragmentBytes;
constexpr int kTileBytes = kValueBytes + kLanes * 4;
constexpr int kStripBytes = kPanelTiles * kTileBytes;
constexpr unsigned short kNothing = 0x8000;
constexpr unsigned kFirstPlaces = 0b0100;  // the first two of a group: what an empty one has

// Where a tile has the group of `row` that begins at `column` of the strip: its two values, in elements from the
// tile's first; the word of metadata, and the lowest of the four bits there.
struct GroupPlace {
  int values;
  int word;
  int bit;
};
constexpr GroupPlace place_of_group(int row, int column) {
  const int pair = column / 32;
  const int odd = column / 16 % 2;
  const int fragment = column / 8 % 2;
  const int group = 2 * (column / 4 % 2) + pair;  // of the four that a lane's register is of
  const int quad = 4 * (row % 8);
  return {(fragment * kLanes + quad + group) * 8 + 2 * (2 * odd + row / 8), quad + 2 * fragment + odd,
          16 * (row / 8) + 4 * group};
}

}  // namespace sparsmith::two_four
