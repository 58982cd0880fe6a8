// The bitmap format as packer and kernels both see it. Freestanding: includes nothing.
//
// A weight is cut into strips of R parts of 16 neighbouring rows, and 64 columns; R is a parameter of the packing.
// Parts are dealt such that row blocks hold about as many nonzeros (formats/row_parts.h); rows and columns beyond the
// weight are 0. A strip is R tiles of 16 x 64, one below the other, and lies in one piece, a multiple of 16 bytes:
//
//   words    uint32[R][32]: for each tile, a word a lane: bit b says whether the lane's element b is stored
//   starts   uint32[R][32][S], only with stored offsets: byte i of word s counts the values of run S i + s of the lanes
//            before
//   firsts   uint16[R][runs]: where the values of each run begin in `values`, in bytes
//   values   fp16 or bf16: by tile, by run, by lane, by bit
//
// A run is 4 or 8 neighbouring bits of all lanes' words, so a tile has 8 or 4 of them, and S = 2 or 1.
//
// The 32 lanes of a warp hold a tile as the A operands of four mma.m16n8k16, the fragments. Lane 4 g + t's element
// b = 8 f + 2 i + h lies in fragment f, register i, half h:
//
//   row g + 8 (i % 2) of the tile, column 16 t + 4 f + 2 (i / 2) + h of the strip
//
// This is the fragment of the PTX ISA with the columns of a strip in another order, such that a lane meets 16
// neighbouring columns of X.
//
// Where a row block's first strips lie follows from their numbers, so that the first copies of a kernel wait for no
// offset. There are up to kFirstStrips of them, fewer where their room would cost a row block more than
// kMaxFirstPadding bytes. Arrays:
//
//   strips         the first strips of each row block, by row blocks, in each by columns, with the same room each; then
//                  the others in the same order, as long as they are
//   strip_offsets  uint32[strips + 1]: where each begins in `strips`, in units of 16 bytes; at a first strip, where the
//                  first of the others does
//   row_parts      uint32[row blocks][R]: the first row of each part
#pragma once

namespace sparsmith::bitmap {

constexpr int kTileRows = 16;
constexpr int kStripColumns = 64;
constexpr int kLanes = 32;
constexpr int kFragments = 4;
constexpr int kFragmentBits = 8;  // of a lane's word
constexpr int kTileElements = kTileRows * kStripColumns;
constexpr int kUnitBytes = 16;
constexpr int kFirstStrips = 16;        // one for each warp of the largest block
constexpr int kMaxFirstPadding = 8192;  // bytes of a row block, on average
constexpr int kRowPartsBytes = 16;      // of shared memory, for the first rows of a block: up to 4

// Bytes in front of the values of a strip.
constexpr int header_bytes(int tiles, int run_bits, bool stored_offsets) {
  return tiles * (kLanes * 4 * (stored_offsets ? 1 + 8 / run_bits : 1) + 32 / run_bits * 2);
}

// Of a strip without a zero: the largest.
constexpr int max_strip_bytes(int tiles, int run_bits, bool stored_offsets) {
  return (header_bytes(tiles, run_bits, stored_offsets) + tiles * kTileElements * 2 + kUnitBytes - 1) / kUnitBytes *
         kUnitBytes;
}

// Where element `bit` of lane `lane` lies in its tile.
constexpr int element_row(int lane, int bit) { return lane / 4 + 8 * (bit / 2 % 2); }
constexpr int element_column(int lane, int bit) {
  return 16 * (lane % 4) + 4 * (bit / 8) + 2 * (bit / 4 % 2) + bit % 2;
}

}  // namespace sparsmith::bitmap
