// The scatter format: per tile of the dense matrix, the list of nonzeros with their positions in the tile
// (scatter_layout.h has the arrays).
//
// The packer deals rows to row blocks, 16 neighbouring ones at a time, such that blocks have equally many nonzeros. It
// chooses which lane stores an entry in which round: lanes get equally many, and those of a round meet
// different banks of shared memory where the tile allows it. Packing is linear in nnz, uses all cores, and gives the
// same bytes on any number of them.
#pragma once

#include <cstdint>
#include <string>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

enum class ScatterEntry : std::uint8_t {
  kByte,  // 3 bytes a nonzero, and a little padding: a position is a byte, a lane has its bank
  kWord,  // 4 bytes a nonzero, little padding, any bank
};

enum class ScatterColumns : std::uint8_t {
  kFragments,  // as a lane's fragments of mma take them from X
  kNatural,
};

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

// Values are rounded to `type`, and 0 is stored as -0. Facts: row_blocks, column_tiles, rounds (of all
// tiles), padding (entries of them that are no nonzeros), rounds_p5, rounds_p95 and rounds_max of a tile. Error:
// kInvalidArgument for a packing that is not of the above, a type that is not of 16 bits, or a matrix of over 2^32
// groups of 32 words.
Result<PackedWeight> pack_scatter(const CsrMatrix& matrix, const ScatterPacking& packing, DataType type);

// The rounds that the words of a tile hold, `words` of each lane. (Kernels have their own.)
std::int64_t scatter_rounds(ScatterEntry entry, std::int64_t words);

}  // namespace sparsmith
