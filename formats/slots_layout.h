// The slots format, for the packer and the kernels. Freestanding: includes nothing.
//
// Rows are dealt to parts, one part for each block of threads. In a part, every row is cut into slots of V * P
// nonzeros. A row has as many slots as it needs, and none if it is empty. 32 slots side by side are a group, one slot
// per lane. Parts have at most two sizes: the first few may be heavy, with more groups than each of the others
// (PartSizes). So kernels find their nonzeros without reading a descriptor, and a few long rows do not pad all parts.
//
//   slots   uint8: groups x P tiles of each part. A tile has, one after the other:
//             values   V values per lane
//             columns  V columns per lane: uint16, uint32, uint8, or 3, 4 or 6 bits (below)
//             bases    one base per lane, uint16; not with uint16 and uint32
//           A lane's values, or columns, are cut into pieces of 16 bytes (8, then 4 bytes for the remainder). Piece i
//           of all 32 lanes stands before piece i + 1, so a warp loads 512 contiguous bytes.
//   rows    Row[parts][rows_per_part], with rows_per_part a multiple of kRowAlignment; behind a part's last row stand
//           kNoRow with range 0. The first row of a part has the most slots.
//
// Padding is at the end of a lane's tile. Kernels can tell it from a nonzero (0 * Inf is not 0):
//   uint16, uint32   the column of padding is K, where kernels find a zero. Nonzeros stand in any order.
//   delta8           padding is 0, at a column of the row or column 0. base is the first column. Byte 0 is the number
//                    of nonzeros among the V. Byte i is the distance of column i to the previous one. A distance over
//                    255 ends the tile.
//   delta4, delta6   padding is a weight of -0 (a -0 of the matrix is stored as 0), at a column of the row or column 0.
//                    base is the first column. Each column has its distance to the previous one; the first distance is
//                    0. Padding also stands between nonzeros that are further apart than 15 or 63, each that far from
//                    the previous column. If the rest of a tile would be padding, the next tile begins. Behind the
//                    last nonzero, the distance is 0.
//   delta3           as delta4, with distances of 1 to 8, each stored less 1. So each padding that ends a tile is one
//                    column further. If this padding would reach K, as much of it as needed stands before the first
//                    nonzero, and base is the column of a padding. An empty tile has columns 0, 1, ...
//                    A tile of 32 that would have only neighbouring columns takes 31 nonzeros, with delta4 too.
//                    Otherwise all tiles of a full row would begin in one of two banks.
//   off8             as delta8, but base is the lowest column, which stands first. Byte 0 is the number of nonzeros.
//                    Byte i is the distance of column i to the base. A distance over 255 ends the tile. Behind the
//                    first column, the order is free.
//
// The distances of four neighbours are the bytes of a word that a kernel has masked: byte i belongs to nonzero 4 g + i.
//   delta4   word g / 2: the lower halves of its bytes for even g, the upper halves for odd g
//   delta6   V = 16: words 0, 1 and 2 have groups 0, 1 and 2 in bits 0-5 of their bytes. Bits 6-7 are group 3's: its
//            bits 4-5 in word 0, 2-3 in word 1, 0-1 in word 2.
//   delta3   V = 32: words 0, 1 and 2 have groups 0, 2 and 4 in bits 0-2 of their bytes, and 1, 3 and 5 in bits 3-5.
//            Bits 6-7 of words 0 and 2 are bits 0-1 of groups 6 and 7, whose bit 2 is in bits 6 and 7 of word 1.
#pragma once

namespace sparsmith::slots {

constexpr int kLanes = 32;

// A row of a part. Its slots are [first, first + count) of the part's slots; range = first + 65536 count. (The fields
// are whole words: a kernel that took a loaded word apart would wait for it.)
struct alignas(8) Row {
  unsigned int row;
  unsigned int range;
};
constexpr unsigned int kNoRow = 0xFFFFFFFFU;
constexpr int kRowAlignment = 8;

// The slots of a row, per lane that adds them up, from which on a kernel may let the whole block add them up.
constexpr int kLongRow = 16;

// The number of groups of each part: `heavy_groups` for the first `heavy_parts` parts, `groups` for the others. groups
// <= heavy_groups.
struct PartSizes {
  int heavy_parts;
  int heavy_groups;
  int groups;

  constexpr int groups_of(int part) const { return part < heavy_parts ? heavy_groups : groups; }
  constexpr long long first_group(long long part) const {
    return groups * part + (heavy_groups - groups) * (part < heavy_parts ? part : heavy_parts);
  }
};

constexpr int kMaxStep = 255;  // the longest distance in 8 bits
constexpr int kMaxStep4 = 15;  // in 4 bits
constexpr int kMaxStep6 = 63;
constexpr int kMaxStep3 = 8;  // stored less 1, in 3 bits

// The fewest columns of a matrix with distances in 3 bits. A tile that spans fewer columns than its width then has,
// before and behind it, as many columns as it has padding.
constexpr int kLeastColumns3 = 256;

}  // namespace sparsmith::slots
