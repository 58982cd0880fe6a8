// The scatter format: for each tile of the dense matrix, the list of its nonzeros with their positions in the tile
// (scatter_layout.h has the arrays).
//
// The packer deals rows to row blocks, 16 neighbouring rows at a time, such that blocks have equally many nonzeros. It
// chooses the lane and the round that store an entry. Lanes get equally many entries. The entries of a round meet
// different banks of shared memory, if the tile allows it. Packing is linear in nnz, uses all cores, and gives the same
// bytes on any number of cores.
#pragma once

#include <cstdint>
#include <string>

namespace sparsmith {

enum class ScatterEntry : std::uint8_t {
  kByte,  // 3 bytes per nonzero, and a little padding: a position is a byte; a lane has its own bank
  kWord,  // 4 bytes per nonzero, little padding, any bank
};

enum class ScatterColumns : std::uint8_t {
  kFragments,  // in the order in which a lane's mma fragments take them from X
  kNatural,
};

// Values are fp16 or bf16, and 0 is stored as -0. Facts: row_blocks, column_tiles, rounds (of all tiles), padding
// (entries that are no nonzeros), and rounds_p5, rounds_p95 and rounds_max (rounds of a tile).
struct ScatterPacking {
  ScatterEntry entry = ScatterEntry::kByte;
  int tile_rows = 64;  // 16, 32 or 64
  int min_rounds = 0;  // of every tile; a multiple of 4, at most 64
  ScatterColumns columns = ScatterColumns::kFragments;

  int tile_columns() const;  // 256, 128 or 64
  // "scatter_byte_64x64_r12", "scatter_byte_64x64_natural_r12"
  std::string name() const;
  bool operator==(const ScatterPacking&) const = default;
};

// The rounds of a tile with `words` words per lane. (Kernels have their own function.)
std::int64_t scatter_rounds(ScatterEntry entry, std::int64_t words);

}  // namespace sparsmith
