// The two_four format (two_four_layout.h): two values and their places for each aligned group of four columns, in the
// order of sparse tensor cores. For weights that were pruned 2:4.
#pragma once

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

// The packing's only name: it has no parameters.
inline constexpr const char* kTwoFourPacking = "two_four";

// Packs in parallel; the bytes follow from the matrix alone. Explicit zeros are stored, and count as nonzeros.
//   facts: "panels" (of 64 rows), "strips" (of 64 columns, a panel).
//   Error: kInvalidArgument for other values than fp16 and bf16, for a group with three or four nonzeros, and for a
//   weight whose rows or columns exceed 32-bit indices.
Result<PackedWeight> pack_two_four(const CsrMatrix& matrix, DataType type);

}  // namespace sparsmith
