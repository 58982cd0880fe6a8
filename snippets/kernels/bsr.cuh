// Y = W X for a bsr weight: tensor cores multiply its blocks whole.
//
// A block of threads owns a row of blocks and a tile of tokens; its warps share out the row. Each warp loads several
// blocks of W, and the operands of X for them, before it multiplies any: small weights spend their time on loads that
// wait for each other. At the end the warps' sums meet in shared memory. The grid's x runs over rows of blocks, its y
// over token tiles; both stride if the grid is smaller.
//
// Tensor cores also multiply elements that the weight does not hold, and 0 * Inf is NaN. So a sum that is not finite is
// added up again from the elements that the weight holds.
#pragma once

#include "formats/bsr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Blocks, class Input, class Sums, class Output, int kWarps, int kAhead>
struct BsrKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)
  SPARSMITH_TUNE(kAhead, 1, 2, 4)

  using Value = typename Input::Value;
  using Block = typename Blocks::Block;
  using Fragment = typename Input::Fragment;
  static constexpr int kThreads = kWarps * bsr::kLanes;
  static constexpr int kTiles = Blocks::kTiles;
  static constexpr int kTokenTiles = Sums::kTokenTiles;
  static constexpr int kRows = Sums::kRows;
  static constexpr int kTokens = Sums::kTokens;
  static constexpr int kOutputs = kRows * kTokens;

  static SPARSMITH_DEVICE void run(const Blocks& blocks, const Input& input, const Output& output, int rows,
                                   int block_rows, int n, float* sums_of_warps) {
    launch_dependents();
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int block_row = block_index_x(); block_row < block_rows; block_row += grid_size_x()) {
        const int begin = blocks.begin(block_row);
        const int end = blocks.begin(block_row + 1);
        Block held[kAhead];
        load_blocks(blocks, block_row, begin + warp_index(), end, held);
        wait_for_previous();  // the first blocks are under way
        Sums sums;
        sums.clear();
        SPARSMITH_ROLLED for (int block = begin + warp_index(); block < end; block += kAhead * kWarps) {
          multiply_blocks(input, first_token, block, end, held, sums);
          load_blocks(blocks, block_row, block + kAhead * kWarps, end, held);
        }
        sums.put(sums_of_warps);
        block_barrier();
        store(blocks, input, output, sums_of_warps, begin, end, block_row, rows, first_token, n);
        block_barrier();  // the sums have been read
      }
    }
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  static SPARSMITH_DEVICE void load_blocks(const Blocks& blocks, int block_row, int first, int end,
                                           Block (&held)[kAhead]) {
    SPARSMITH_UNROLL for (int i = 0; i < kAhead; ++i) {
      if (first + i * kWarps < end) blocks.load(block_row, first + i * kWarps, held[i]);
    }
  }

  // Multiplies blocks `first`, first + kWarps, ... before `end`.
  static SPARSMITH_DEVICE void multiply_blocks(const Input& input, int first_token, int first, int end,
                                               const Block (&held)[kAhead], Sums& sums) {
    Fragment x[kAhead][kTokenTiles];
    SPARSMITH_UNROLL for (int i = 0; i < kAhead; ++i) {
      if (first + i * kWarps < end) {
        SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
          x[i][j] = input.fetch(first_token + 8 * j, held[i].first_column);
        }
      }
    }
    SPARSMITH_UNROLL for (int i = 0; i < kAhead; ++i) {
      if (first + i * kWarps < end) {
        SPARSMITH_UNROLL for (int q = 0; q < 2; ++q) {
          SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
            const auto& operand = held[i].operands[r][q];
            const u32 a[4] = {operand[0], operand[1], operand[2], operand[3]};
            SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
              sums.add(r, j, a, x[i][j][2 * q], x[i][j][2 * q + 1]);
            }
          }
        }
      }
    }
  }

  // Neighbouring threads store neighbouring elements of Y.
  static SPARSMITH_DEVICE void store(const Blocks& blocks, const Input& input, const Output& output,
                                     const float* sums_of_warps, int begin, int end, int block_row, int rows,
                                     int first_token, int n) {
    for (int i = thread_index(); i < kOutputs; i += kThreads) {
      const int row = Input::kTokenMajor ? i % kRows : i / kTokens;
      const int token = Input::kTokenMajor ? i / kRows : i % kTokens;
      if (block_row * kRows + row >= rows || first_token + token >= n) continue;
      float sum[1] = {Sums::total(sums_of_warps, row, token)};
      if (sum[0] * 0.0F != 0.0F) sum[0] = exact_sum(blocks, input, begin, end, block_row, row, first_token + token);
      output.store(static_cast<u32>(block_row * kRows + row), first_token + token, n, sum);
    }
  }

  // Rare, so it uses loops.
  static SPARSMITH_DEVICE float exact_sum(const Blocks& blocks, const Input& input, int begin, int end, int block_row,
                                          int row, int token) {
    float sum = 0.0F;
    SPARSMITH_ROLLED for (int block = begin; block < end; ++block) {
      const int first_column = blocks.first_column(block_row, block);
      SPARSMITH_ROLLED for (int i = 0; i < bsr::kBlockColumns; ++i) {
        const auto weight = blocks.element(block, row, i);
        if (weight.bits == bsr::kNothing) continue;
        sum = multiply_add(to_float(weight), input.element(token, first_column + i), sum);
      }
    }
    return sum;
  }
};

}  // namespace sparsmith
