// The two_four format (two_four_layout.h): two values and their places for each aligned group of four columns, in the
// order that sparse tensor cores need. For weights that were pruned 2:4.
#pragma once

#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

// The only name of the packing, which has no parameters. Explicit zeros are stored, and count as nonzeros.
//   facts: "panels" (of 64 rows), "strips" (of 64 columns, per panel).
//   Error: kInvalidArgument for values other than fp16 and bf16, and for a group with three or four nonzeros.
inline constexpr const char* kTwoFourPacking = "two_four";

// Error: kInvalidArgument, with the first row that has a group of three or four nonzeros.
Status check_two_four(const CsrMatrix& matrix);

}  // namespace sparsmith
