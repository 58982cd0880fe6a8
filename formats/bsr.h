// The bsr format (bsr_layout.h): blocks of 16 R x 32 elements, stored whole where they hold a nonzero. For weights that
// were pruned in blocks, and for weights so small that indices cost more time than zeros.
#pragma once

#include <string>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct BsrPacking {
  int tiles = 1;     // of 16 rows, one below the other in a block: 1, 2 or 4
  bool all = false;  // store every block

  // "bsr_r1_all", "bsr_r2_listed"
  std::string name() const;
};

// Packs in parallel; the bytes follow from the matrix alone. Explicit zeros are stored as such.
//   facts: "block_rows", "block_columns" (of a row), "blocks" (stored).
//   Error: kInvalidArgument for other values than fp16 and bf16, and for a weight of 2^31 blocks or more.
Result<PackedWeight> pack_bsr(const CsrMatrix& matrix, const BsrPacking& packing, DataType type);

}  // namespace sparsmith
