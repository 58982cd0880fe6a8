// The bitmap format (bitmap_layout.h): a bit an element and the values that are not 0, in the order in which a warp
// makes tensor-core operands of them. For weights with so many nonzeros that an index each would cost more.
#pragma once

#include <string>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct BitmapPacking {
  int tiles = 4;                // of 16 rows, one below the other in a strip: 1, 2 or 4
  int run_bits = 8;             // of a word, whose values lie together: 4 or 8
  bool stored_offsets = false;  // where a lane's values begin is stored (a bit an element more) or counted by kernels

  // "bitmap_r4_b8_scanned"
  std::string name() const;
};

// Packs in parallel; the bytes follow from the matrix alone. Explicit zeros are stored as such.
//   facts: "row_tiles" (of 16 R rows), "strips" (a row tile), "max_strip_bytes"; "first_strips" (a row tile, whose
//          place follows from their numbers) and "first_units" (of 16 bytes: the room of each)
//   Error: kInvalidArgument for other values than fp16 and bf16, and for a weight that exceeds 32-bit offsets.
Result<PackedWeight> pack_bitmap(const CsrMatrix& matrix, const BitmapPacking& packing, DataType type);

}  // namespace sparsmith
