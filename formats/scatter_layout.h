// The scatter format as packer and kernels both see it. Freestanding: includes nothing.
//
// W is cut into tiles of kTileElements elements: tile_rows x tile_columns, edges padded. A warp makes a tile dense in
// shared memory by storing its nonzeros where they belong, and multiplies it on tensor cores. What is stored is the
// list of a tile's nonzeros, as entries (value, position), in rounds: in a round each of the 32 lanes stores one entry.
//
// A row block need not be neighbouring rows: it is made of parts of kPartRows rows, which the packer deals out such
// that blocks have equally many nonzeros. Rows of parts that begin at the end of the weight or behind it do not exist.
//
// A dense tile lies in shared memory row by row, as ldmatrix wants it: 16-byte chunks, chunk h of row r at h ^ (r % 8).
// The columns of each 32 are permuted, so that what a lane needs of X for two mma.m16n8k16 is 8 neighbouring columns:
// column 32 u + 8 t + 4 q + 2 i + e is element 2 t + e of chunk 4 u + 2 q + i. (t < 4; q, i, e < 2) Packings of natural
// columns, for kernels that bring X to shared memory as well, have column 8 h + e as element e of chunk h.
//
//   bank  the 4-byte word of a line that an element lies in; stores to one bank take turns, unless to the same word
//   line  128 bytes of the tile: kLines of them, each with a word in every bank
//
// Of every tile the first rounds (a packing says how many, a multiple of 4) lie at an address that follows from the
// tile's number, so that a kernel need not wait for an offset; what a tile has beyond them follows elsewhere. Tiles are
// numbered row block by row block, column tile by column tile.
//
//   entries       uint32[tiles][32 fixed words]: those of the first rounds, as fixed_order() (byte form)
//                 and fixed_index() order them
//   more_entries  uint32[][32]: the words of further rounds, those of 32 lanes side by side, tile after tile
//   row_parts     uint32[row_blocks][tile_rows / kPartRows]: the first row of each part of a row block
//   more_offsets  uint32[tiles + 1]: tile i has lines [more_offsets[i], more_offsets[i + 1]) of more_entries
//
// Two forms of entries:
//   word  a word a round: the value's 16 bits, and above them the byte offset in the tile. A lane may hold any entry.
//   byte  three words for four rounds: four positions of a byte, values of rounds 0 and 1, values of rounds 2 and 3. A
//         tile has an even number of rounds, and the last word is left out where they end with round 1. Lane l stores
//         to banks l and l + 1 alone, the latter where the packer evened out the lanes: position = line << 2 | next <<
//         1 | half is the byte offset 128 line + 4 (l + next) + 2 half.
//
// Lanes without work repeat an entry of theirs, or store +0 where there is nothing (a 0 of the weight is -0): no
// element is stored by two lanes. So that kernels need not test, a packing may give every tile a least number of
// rounds.
#pragma once

namespace sparsmith::scatter {

constexpr int kLanes = 32;
constexpr int kTileElements = 4096;
constexpr int kPartRows = 16;  // rows of an mma; of token-major Y, a sector of 32 bytes
constexpr int kTileBytes = 2 * kTileElements;
constexpr int kLineBytes = 128;
constexpr int kLines = kTileBytes / kLineBytes;

// Where word `i` of a lane stands among the 32 `words` fixed ones of a tile: a lane's words four by four, as one
// vector, then two by two, then one.
constexpr int fixed_index(int words, int lane, int i) {
  const int fours = words / 4 * 4;
  if (i < fours) return i / 4 * 4 * kLanes + lane * 4 + i % 4;
  const int pairs = fours + words % 4 / 2 * 2;
  if (i < pairs) return fours * kLanes + lane * 2 + i % 2;
  return pairs * kLanes + lane;
}

// Which of a lane's fixed words of the byte form is word `word` of those that the tile's first `rounds` rounds make:
// all positions stand before all values.
constexpr int fixed_order(int rounds, int word) {
  return word % 3 == 0 ? word / 3 : rounds / 4 + word / 3 * 2 + word % 3 - 1;
}

}  // namespace sparsmith::scatter
