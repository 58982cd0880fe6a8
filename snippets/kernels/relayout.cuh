// Copies token-major X[N][K] to feature-major Xt[K][ldt] in the workspace, so that the tokens of a column are
// neighbours.
//
// Each thread turns a square in its registers. The lanes of a warp take 4 squares side by side and 8 below each other:
// a column is written 128 bytes at a time. Each of the block's warps, which lie side by side, reads a token 64 bytes at
// a time. ldt is n rounded up to a multiple of 8. The tokens between n and ldt become 0, and so does a row behind the
// last.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/turned_square.cuh"

namespace sparsmith {

template <class Value>
struct RelayoutKernel {
  SPARSMITH_ROLE(kernel)
  using Square = TurnedSquare<Value>;

  static constexpr int kThreads = 128;
  static constexpr int kSquaresAcross = 8;                                  // of a warp, along the columns
  static constexpr int kSquaresDown = 4;                                    // along the tokens
  static constexpr int kColumns = kThreads / kSquaresDown * Square::kSide;  // of a block
  static constexpr int kTokens = kSquaresDown * Square::kSide;

  static SPARSMITH_DEVICE void run(const Value* x, i64 ldx, Value* xt, i64 ldt, int cols, int n) {
    launch_dependents();
    wait_for_previous();
    const bool aligned = Square::aligned(x, ldx);
    const int lane = lane_index();
    const int square = thread_index() / 32 * kSquaresAcross + lane % kSquaresAcross;
    const int column = block_index_x() * kColumns + square * Square::kSide;
    if (column > cols) return;
    for (i64 first_token = static_cast<i64>(block_index_y()) * kTokens; first_token < ldt;
         first_token += static_cast<i64>(grid_size_y()) * kTokens) {
      const i64 token = first_token + lane / kSquaresAcross * Square::kSide;
      if (token >= ldt) continue;
      Square tile;
      tile.load(x + token * ldx + column, ldx, aligned, cols - column, static_cast<int>(n - token));
      SPARSMITH_UNROLL for (int c = 0; c < Square::kSide; ++c) {
        if (column + c <= cols) {
          store_whole(reinterpret_cast<typename Square::Line*>(xt + (column + c) * ldt + token), tile.columns[c]);
        }
      }
    }
  }
};

}  // namespace sparsmith
