// The columns of X that a lane takes for a chunk of operands (formats/operand_layout.h): columns of a strip, in the
// orders of the weights' packings.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith::operands {

// Each order has: kChunks, the chunks of a strip; kNeighbours, whether a lane's 8 columns are neighbours; column(), the
// first of the two columns of a lane's word 0 to 3.

// The order of FragmentInput: two multiplications by mma.m16n8k16.
struct FragmentOrder {
  static constexpr int kChunks = 1;
  static constexpr bool kNeighbours = true;
  static SPARSMITH_DEVICE int column(int /*chunk*/, int lane, int word) { return lane % 4 * 8 + word * 2; }
};

// The order of StripInput: a lane has 16 neighbouring columns of a bitmap strip, 8 in each chunk.
struct StripOrder {
  static constexpr int kChunks = 2;
  static constexpr bool kNeighbours = true;
  static SPARSMITH_DEVICE int column(int chunk, int lane, int word) { return lane % 4 * 16 + chunk * 8 + word * 2; }
};

// The order of mma.sp.m16n8k32: of lanes 2 p and 2 p + 1 of a quad, the even lane has the first two columns of four
// groups, the odd lane the last two (formats/two_four_layout.h).
struct PairedOrder {
  static constexpr int kChunks = 2;
  static constexpr bool kNeighbours = false;
  static SPARSMITH_DEVICE int column(int chunk, int lane, int word) {
    return lane / 2 % 2 * 32 + chunk * 8 + lane % 2 * 2 + word / 2 * 16 + word % 2 * 4;
  }
};

}  // namespace sparsmith::operands
