// The slots format as packer and kernels both see it. Freestanding: includes nothing.
//
// Rows are dealt to parts, one for a block of threads. In a part every row is cut into slots of V * P nonzeros; a row
// has as many as it needs, none if it is empty. 32 slots side by side are a group, one slot a lane. Parts are of two
// sizes at most: the first few may be heavy, with more groups than each of the others (PartSizes). So nobody reads a
// descriptor to find his nonzeros, and a few long rows do not pad all parts.
//
//   slots   uint8: of each part groups x P tiles; of a tile, one after the other:
//             values   V of each lane
//             columns  V of each lane: uint16, uint32, uint8, or 3, 4 or 6 bits (below)
//             bases    one of each lane, uint16: not with uint16 and uint32
//           A lane's values, or columns, are cut into pieces of 16 bytes (where fewer are left, of 8, then of 4), and
//           piece i of all 32 lanes stands before piece i + 1: a warp loads 512 bytes in a row.
//   rows    Row[parts][rows_per_part], rows_per_part a multiple of kRowAlignment; behind a part's last row, kNoRow with
//           range 0. A part's first row has the most slots.
//
// Padding is at the end of a lane's tile, and a kernel can tell it from a nonzero (0 * Inf is not 0):
//   uint16, uint32   its column is K, where kernels find a zero. Nonzeros stand in any order.
//   delta8           0, of a column of the row or of column 0. base is the first column, byte 0 how many of the V are
//                    nonzeros, byte i the distance of column i to the one before. A distance over 255 ends the tile.
//   delta4, delta6   a weight of -0 (one that the matrix holds is stored as 0), of a column of the row or of column 0.
//                    base is the first column; each has its distance to the one before, and the first 0. Padding also
//                    stands between nonzeros that are further apart than 15 or 63, each that far from the one before;
//                    where the rest of a tile would be padding, the next one begins. Distance 0 behind the last
//                    nonzero.
//   delta3           as delta4, with distances of 1 to 8, each stored less 1: padding that ends a tile is one column
//                    further each. Where it would reach K, as much of it as that stands before the first nonzero, and
//                    base is a padding's column. An empty tile has columns 0, 1, ...
//                    A tile of 32 that would have neighbouring columns only takes 31, with delta4 too: otherwise those
//                    of a full row would all begin in one of two banks.
//   off8             as delta8. base is the lowest column, which stands first; byte 0 how many are nonzeros, byte i the
//                    distance of column i to the base. A distance over 255 ends the tile; behind the first, any order.
//
// Four neighbours' distances are the bytes of a word once a kernel has masked it: byte i belongs to nonzero 4 g + i.
//   delta4   word g / 2, its lower halves of bytes for even g, the upper ones for odd g
//   delta6   V = 16: words 0, 1 and 2 have groups 0, 1 and 2 in bits 0-5 of their bytes. Bits 6-7 are group 3's: its
//            bits 4-5 in word 0, 2-3 in word 1, 0-1 in word 2.
//   delta3   V = 32: words 0, 1 and 2 have groups 0, 2 and 4 in bits 0-2 of their bytes, and 1, 3 and 5 in bits 3-5.
//            Bits 6-7 of words 0 and 2 are bits 0-1 of groups 6 and 7, whose bit 2 is in bits 6 and 7 of word 1.
#pragma once

namespace sparsmith::slots {

constexpr int kLanes = 32;

// A row of a part: its slots are [first, first + count) of the part's, range = first + 65536 count. (Whole words: a
// kernel that took a loaded word apart would wait for it.)
struct alignas(8) Row {
  unsigned int row;
  unsigned int range;
};
constexpr unsigned int kNoRow = 0xFFFFFFFFU;
constexpr int kRowAlignment = 8;

// Slots of a row, for each lane that adds them up, from which on a kernel may have the whole block add them.
constexpr int kLongRow = 16;

// How many groups each part has: `heavy_groups` the first `heavy_parts` of them, `groups` the others, which are no
// more.
struct PartSizes {
  int heavy_parts;
  int heavy_groups;
  int groups;

  constexpr int groups_of(int part) const { return part < heavy_parts ? heavy_groups : groups; }
  constexpr long long first_group(long long part) const {
    return groups * part + (heavy_groups - groups) * (part < heavy_parts ? part : heavy_parts);
  }
};

constexpr int kMaxStep = 255;  // of a distance in 8 bits
constexpr int kMaxStep4 = 15;  // in 4 bits
constexpr int kMaxStep6 = 63;
constexpr int kMaxStep3 = 8;  // less 1 in 3 bits

// The fewest columns of a matrix with distances in 3 bits: a tile that spans fewer places than its width has as many
// columns before it and behind it as it has padding.
constexpr int kLeastColumns3 = 256;

}  // namespace sparsmith::slots
