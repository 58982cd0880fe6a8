// The scatter format, for the packer and the kernels. Freestanding: includes nothing.
//
// W is cut into tiles of kTileElements elements: tile_rows x tile_columns, with padded edges. A warp makes a tile dense
// in shared memory: it stores the nonzeros at their places. Then it multiplies the tile on tensor cores. The format
// stores the list of a tile's nonzeros as entries (value, position), in rounds. In a round, each of the 32 lanes stores
// one entry.
//
// The rows of a row block need not be neighbours. A row block is made of parts of kPartRows rows, which the packer
// deals such that blocks have equally many nonzeros. The rows of a part at or behind the end of the weight do not
// exist.
//
// A dense tile lies in shared memory row by row, as ldmatrix needs it: in 16-byte chunks, with chunk h of row r at h ^
// (r % 8). The columns of each 32 are permuted, so that a lane needs 8 neighbouring columns of X for two mma.m16n8k16:
// column 32 u + 8 t + 4 q + 2 i + e is element 2 t + e of chunk 4 u + 2 q + i. (t < 4; q, i, e < 2) Packings of natural
// columns have column 8 h + e as element e of chunk h. They are for kernels that bring X to shared memory as well.
//
//   bank  the 4-byte word of a line that holds an element. Stores to one bank take turns, unless they go to one word
//   line  128 bytes of the tile: kLines of them, each with one word in every bank
//
// The first rounds of every tile (the packing says how many, a multiple of 4) lie at an address that follows from the
// tile's number, so that kernels need not wait for an offset. The further rounds of a tile lie elsewhere. Tiles are
// numbered by row block, then by column tile.
//
//   entries       uint32[tiles][32 fixed words]: the words of the first rounds, in the order of fixed_order() (byte
//                 form) and fixed_index()
//   more_entries  uint32[][32]: the words of further rounds, the words of 32 lanes side by side, tile after tile
//   row_parts     uint32[row_blocks][tile_rows / kPartRows]: the first row of each part of a row block
//   more_offsets  uint32[tiles + 1]: tile i has lines [more_offsets[i], more_offsets[i + 1]) of more_entries
//
// Two forms of entries:
//   word  one word per round: the low 16 bits are the value, the high 16 bits the byte offset in the tile. A lane may
//         hold any entry.
//   byte  three words for four rounds: four positions of one byte each, the values of rounds 0 and 1, the values of
//         rounds 2 and 3. A tile has an even number of rounds; if the rounds end with round 1, the last word is left
//         out. Lane l stores only to banks l and l + 1, to the latter where the packer evened out the lanes: position =
//         line << 2 | next << 1 | half is the byte offset 128 line + 4 (l + next) + 2 half.
//
// Lanes without work repeat one of their entries, or store +0 to an element that the weight does not hold (a 0 of the
// weight is -0). No two lanes store the same element. A packing may give every tile a least number of rounds, so that
// kernels need no tests.
#pragma once

namespace sparsmith::scatter {

constexpr int kLanes = 32;
constexpr int kTileElements = 4096;
constexpr int kPartRows = 16;  // rows of an mma; in token-major Y, a sector of 32 bytes
constexpr int kTileBytes = 2 * kTileElements;
constexpr int kLineBytes = 128;
constexpr int kLines = kTileBytes / kLineBytes;

// The place of word `i` of a lane among the 32 `words` fixed words of a tile. A lane's words stand four by four, as one
// vector, then two by two, then one by one.
constexpr int fixed_index(int words, int lane, int i) {
  const int fours = words / 4 * 4;
  if (i < fours) return i / 4 * 4 * kLanes + lane * 4 + i % 4;
  const int pairs = fours + words % 4 / 2 * 2;
  if (i < pairs) return fours * kLanes + lane * 2 + i % 2;
  return pairs * kLanes + lane;
}

// The index, among a lane's fixed words in the byte form, of word `word` of the tile's first `rounds` rounds: all
// positions stand before all values.
constexpr int fixed_order(int rounds, int word) {
  return word % 3 == 0 ? word / 3 : rounds / 4 + word / 3 * 2 + word % 3 - 1;
}

}  // namespace sparsmith::scatter
