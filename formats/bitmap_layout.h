// The bitmap format, for the packer and the kernels. Freestanding: includes nothing.
//
// A weight is cut into strips of 64 columns and R parts; a part is 16 neighbouring rows. R is a parameter of the
// packing. Parts are dealt to row blocks such that the blocks hold about equally many nonzeros (formats/row_parts.h).
// Rows and columns beyond the weight are 0. A strip is a stack of R tiles of 16 x 64. It is contiguous, and its size is
// a multiple of 16 bytes:
//
//   words    uint32[R][32]: one word per lane of each tile: bit b says whether the lane's element b is stored
//   starts   uint32[R][32][S], only with stored offsets: byte i of word s is the number of values that the lanes before
//            have in run S i + s
//   firsts   uint16[R][runs]: where the values of each run begin in `values`, in bytes
//   values   fp16 or bf16: by tile, by run, by lane, by bit
//
// A run is 4 or 8 neighbouring bits of the words of all lanes. So a tile has 8 or 4 runs, and S = 2 or 1.
//
// The 32 lanes of a warp hold a tile as the A operands of four mma.m16n8k16, the fragments. Element b = 8 f + 2 i + h
// of lane 4 g + t lies in fragment f, register i, half h:
//
//   row g + 8 (i % 2) of the tile, column 16 t + 4 f + 2 (i / 2) + h of the strip
//
// This is the fragment of the PTX ISA with the columns of a strip in another order, so that a lane needs 16
// neighbouring columns of X.
//
// The place of a row block's first strips follows from their numbers, so that the first copies of a kernel need not
// wait for an offset. A row block has up to kFirstStrips of them, and fewer if their room would cost it more than
// kMaxFirstPadding bytes. Arrays:
//
//   strips         the first strips of each row block, ordered by row block and then by column, each in equal room;
//                  then the other strips in the same order, without padding
//   strip_offsets  uint32[strips + 1]: where each strip begins in `strips`, in units of 16 bytes. The entry of a first
//                  strip is the start of the next strip that is not a first one
//   row_parts      uint32[row blocks][R]: the first row of each part
#pragma once

namespace sparsmith::bitmap {

constexpr int kTileRows = 16;
constexpr int kStripColumns = 64;
constexpr int kLanes = 32;
constexpr int kFragments = 4;
constexpr int kFragmentBits = 8;  // bits of a lane's word
constexpr int kTileElements = kTileRows * kStripColumns;
constexpr int kUnitBytes = 16;
constexpr int kFirstStrips = 16;        // one for each warp of the largest block
constexpr int kMaxFirstPadding = 8192;  // bytes per row block, on average
constexpr int kRowPartsBytes = 16;      // shared memory for the first rows of a block's parts: up to 4

// Bytes in front of the values of a strip.
constexpr int header_bytes(int tiles, int run_bits, bool stored_offsets) {
  return tiles * (kLanes * 4 * (stored_offsets ? 1 + 8 / run_bits : 1) + 32 / run_bits * 2);
}

// Bytes of the largest strip: a strip without a zero.
constexpr int max_strip_bytes(int tiles, int run_bits, bool stored_offsets) {
  return (header_bytes(tiles, run_bits, stored_offsets) + tiles * kTileElements * 2 + kUnitBytes - 1) / kUnitBytes *
         kUnitBytes;
}

// The place of element `bit` of lane `lane` in its tile.
constexpr int element_row(int lane, int bit) { return lane / 4 + 8 * (bit / 2 % 2); }
constexpr int element_column(int lane, int bit) {
  return 16 * (lane % 4) + 4 * (bit / 8) + 2 * (bit / 4 % 2) + bit % 2;
}

}  // namespace sparsmith::bitmap
