// The blocks of a bsr weight, to the registers of the warps of BsrKernel, as many together, and nothing else.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/kernels/bsr.cuh"

namespace sparsmith {

template <class Blocks, class Input, class Sums, class Output, int kWarps, int kAhead>
struct BsrCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)
  SPARSMITH_TUNE(kAhead, 1, 2, 4)

  using Block = typename Blocks::Block;

  static SPARSMITH_DEVICE void run(const Blocks& blocks, const Input& /*input*/, const Output& /*output*/, int /*rows*/,
                                   int block_rows, int n, float* sums_of_warps) {
    launch_dependents();
    KeptWords kept;
    for (int first_token = block_index_y() * Sums::kTokens; first_token < n;
         first_token += grid_size_y() * Sums::kTokens) {
      for (int block_row = block_index_x(); block_row < block_rows; block_row += grid_size_x()) {
        const int begin = blocks.begin(block_row);
        const int end = blocks.begin(block_row + 1);
        Block held[kAhead];
        load(blocks, block_row, begin + warp_index(), end, held);
        wait_for_previous();  // the first blocks are under way
        SPARSMITH_ROLLED for (int block = begin + warp_index(); block < end; block += kAhead * kWarps) {
          keep(block, end, held, kept);
          load(blocks, block_row, block + kAhead * kWarps, end, held);
        }
      }
    }
    wait_for_previous();  // where there was nothing to do, too
    kept.end(shared_offset(sums_of_warps));
  }

 private:
  static SPARSMITH_DEVICE void load(const Blocks& blocks, int block_row, int first, int end, Block (&held)[kAhead]) {
    SPARSMITH_UNROLL for (int i = 0; i < kAhead; ++i) {
      if (first + i * kWarps < end) blocks.load(block_row, first + i * kWarps, held[i]);
    }
  }

  static SPARSMITH_DEVICE void keep(int first, int end, const Block (&held)[kAhead], KeptWords& kept) {
    SPARSMITH_UNROLL for (int i = 0; i < kAhead; ++i) {
      if (first + i * kWarps >= end) continue;
      kept.keep(static_cast<u32>(held[i].first_column));
      SPARSMITH_UNROLL for (int r = 0; r < Blocks::kTiles; ++r) {
        SPARSMITH_UNROLL for (int w = 0; w < 8; ++w) kept.keep(held[i].operands[r][w / 4][w % 4]);
      }
    }
  }
};

}  // namespace sparsmith
