// The csr format: segments of rows, aligned for vector loads, in processing order (csr_layout.h has the arrays).
//
// Row order and splitting are data: kernels see only segments. Packing is linear in nnz, except for the sort of rows.
#pragma once

#include <cstdint>
#include <string>

namespace sparsmith {

enum class RowOrder : std::uint8_t {
  kNatural,  // the matrix's order: neighbouring thread groups compute neighbouring rows of Y
  kSorted,   // longest first (Gale et al., SC20, row swizzle): groups that work side by side have equal work
  kBinned,   // by the power of two of their length, longest first, natural inside a bin: balance and locality
};

// Where the partial sums of a cut row go.
enum class PartialSums : std::uint8_t {
  kNone,     // no row is cut
  kAtomic,   // one slot per cut row; segments add to it atomically
  kTwoPass,  // one slot per segment; a second launch adds them up in order
};

// Values are rounded to fp32, fp16 or bf16, or are 8-bit codes. Facts: segments, split_rows, slots, stored (elements of
// columns and values, with padding), has_targets (0 or 1). 16-bit columns are for K <= 65,536. A weight has fewer than
// 2^32 elements.
struct CsrPacking {
  int index_bytes = 4;  // 2 (K <= 65,536) or 4
  int alignment = 1;    // 1, 2, 4 or 8: segments begin at multiples of it
  RowOrder order = RowOrder::kNatural;
  // Rows longer than this are cut into segments of this length; 0: never. A multiple of alignment.
  std::int64_t split_length = 0;
  PartialSums partials = PartialSums::kNone;  // kNone exactly when split_length is 0

  // "csr_u16_a8_sorted_l1024_atomic"
  std::string name() const;
  bool operator==(const CsrPacking&) const = default;
};

}  // namespace sparsmith
