// Copies X to panels P[panel][K][kTokens] in the workspace, so that the many blocks that use a panel copy it unchanged.
//
// Token-major X: a thread takes kTokens columns of a panel's tokens and turns them in its registers. Feature-major X:
// neighbouring threads move neighbouring panels of a column. Tokens beyond n become 0.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_input.cuh"
#include "snippets/prolog/turned_square.cuh"

namespace sparsmith {

template <class Value, bool kTokenMajor>
struct RelayoutPanelsKernel {
  SPARSMITH_ROLE(kernel)

  static constexpr int kThreads = 128;
  static constexpr int kTokens = panel::Row<Value>::kTokens;
  static constexpr int kColumns = kTokenMajor ? kTokens : 1;  // of a thread
  using Tokens = typename panel::Row<Value>::Tokens;
  using Square = TurnedSquare<Value>;

  // Token-major: the grid's x runs over columns, its y over panels; feature-major: the other way round.
  static SPARSMITH_DEVICE void run(const Value* x, i64 ldx, Value* panels, int cols, int n) {
    launch_dependents();
    wait_for_previous();
    const int panel_count = (n + kTokens - 1) / kTokens;
    const bool aligned = Square::aligned(x, ldx);
    if constexpr (kTokenMajor) {
      const int first = (block_index_x() * kThreads + thread_index()) * kColumns;
      if (first >= cols) return;
      for (int panel = block_index_y(); panel < panel_count; panel += grid_size_y()) {
        Square square;
        square.load(x + static_cast<i64>(panel) * kTokens * ldx + first, ldx, aligned, cols - first,
                    n - panel * kTokens);
        Value* to = panels + (static_cast<i64>(panel) * cols + first) * kTokens;
        SPARSMITH_UNROLL for (int c = 0; c < kColumns; ++c) {
          if (first + c < cols) store_whole(reinterpret_cast<Tokens*>(to + c * kTokens), square.columns[c]);
        }
      }
    } else {
      for (i64 i = static_cast<i64>(block_index_x()) * kThreads + thread_index();
           i < static_cast<i64>(panel_count) * cols; i += static_cast<i64>(grid_size_x()) * kThreads) {
        const int column = static_cast<int>(i / panel_count);
        const int panel = static_cast<int>(i % panel_count);
        const Value* from = x + column * ldx + static_cast<i64>(panel) * kTokens;
        Tokens tokens = {};
        if (aligned && (panel + 1) * kTokens <= n) {
          tokens = load_coherent(reinterpret_cast<const Tokens*>(from));
        } else {
          SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
            if (panel * kTokens + t < n) tokens[t] = load_coherent(from + t);
          }
        }
        *reinterpret_cast<Tokens*>(panels + (static_cast<i64>(panel) * cols + column) * kTokens) = tokens;
      }
    }
  }
};

}  // namespace sparsmith
