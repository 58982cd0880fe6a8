// The csr format: segments of rows, aligned for vector loads, in processing order (csr_layout.h has the arrays).
//
// Row order and splitting are data: kernels only see segments. Packing is linear in nnz, but for the sort of rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

enum class RowOrder : std::uint8_t {
  kNatural,  // as they stand: neighbouring rows of Y by neighbouring thread groups
  kSorted,   // longest first (Gale et al., SC20, row swizzle): groups that work side by side have equal work
  kBinned,   // by the power of two of their length, longest first, natural inside a bin: balance and locality
};

// What becomes of the sums of a row that was cut.
enum class PartialSums : std::uint8_t {
  kNone,     // no row is cut
  kAtomic,   // one slot a row, added to atomically
  kTwoPass,  // one slot a segment, added up in order by a second launch
};

struct CsrPacking {
  int index_bytes = 4;  // 2 (K <= 65,536) or 4
  int alignment = 1;    // 1, 2, 4 or 8: segments begin at a multiple of it
  RowOrder order = RowOrder::kNatural;
  std::int64_t split_length =
      0;  // rows longer than this are cut into segments of this length; 0: never. A multiple of alignment
  PartialSums partials = PartialSums::kNone;  // kNone exactly when split_length is 0

  // "csr_u16_a8_sorted_l1024_atomic"
  std::string name() const;
  bool operator==(const CsrPacking&) const = default;
};

std::string_view row_order_name(RowOrder order);
std::string_view partial_sums_name(PartialSums partials);

// Values are rounded to `type`, or are 8-bit codes. Facts: segments, split_rows, slots, stored (elements of columns and
// values, padding included), has_targets (0 or 1). Error: kInvalidArgument for a packing that cannot hold the matrix
// (uint16 columns beyond K = 65,536; over 2^32 elements).
Result<PackedWeight> pack_csr(const CsrMatrix& matrix, const CsrPacking& packing, DataType type);

}  // namespace sparsmith
