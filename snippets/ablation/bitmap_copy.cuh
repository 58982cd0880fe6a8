// The strips of a bitmap weight through the rings of BitmapKernel, by the same warps and as far ahead, and nothing
// else: what lands in shared memory stays there.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/kernels/bitmap.cuh"

namespace sparsmith {

template <class Ring, class Input, class Values, class Sums, class Output, int kWarps, int kParts>
struct BitmapCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)

  static constexpr int kExtraBytes = BitmapKernel<Ring, Input, Values, Sums, Output, kWarps, kParts>::kExtraBytes;

  static SPARSMITH_DEVICE void run(Ring& ring, Input& /*input*/, const Output& /*output*/, const u32* /*row_parts*/,
                                   int /*rows*/, int row_tiles, int first_strip, int end_strip, int n,
                                   float* /*sums_of_warps*/, float* /*extras*/) {
    launch_dependents();
    const int begin = first_strip + warp_index();
    for (int first_token = block_index_y() * Sums::kTokens; first_token < n;
         first_token += grid_size_y() * Sums::kTokens) {
      for (int row_tile = block_index_x(); row_tile < row_tiles; row_tile += grid_size_x()) {
        ring.bounds.turn_to(row_tile, begin, end_strip);
        ring.start();
        wait_for_previous();  // the first strips are under way
        block_barrier();      // the ring is ready
        SPARSMITH_ROLLED for (int strip = begin; strip < end_strip; strip += kWarps) {
          ring.wait();
          ring.release();
        }
      }
    }
    wait_for_previous();  // where there was nothing to do, too
  }
};

}  // namespace sparsmith
