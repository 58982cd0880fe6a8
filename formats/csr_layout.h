// The csr format, for the packer and the kernels. Freestanding: includes nothing.
//
// A weight is a list of segments. A segment is a row, or a chunk of a long row. Segments stand in the order in which
// kernels process them. The nonzeros of a segment stand at [first, first + length) of the arrays `columns` and
// `values`; `first` is a multiple of the packing's alignment. Between two segments is padding: column 0, value 0.
// Kernels must not multiply it (0 * Inf is not 0). There is room for at least one vector.
//
//   segments  Segment[segment_count]
//   columns   uint16 or uint32 [stored]
//   values    fp32, fp16 or bf16 [stored]
//   targets   uint32[segment_count]: where a segment's sum goes. Absent when rows are neither reordered nor cut.
//               row                    the segment is this whole row
//               kPartialFlag | slot    one of several segments of a row: add to, or store into, this slot of
//                                      the partial sums
//   split_rows    uint32[split_row_count]: the cut rows, for the pass that adds up partial sums
//   slot_offsets  uint32[split_row_count + 1]: the slots of split row i are [slot_offsets[i], slot_offsets[i + 1])
#pragma once

namespace sparsmith::csr {

struct alignas(8) Segment {
  unsigned int first;
  unsigned int length;
};

constexpr unsigned int kPartialFlag = 0x80000000U;

}  // namespace sparsmith::csr
