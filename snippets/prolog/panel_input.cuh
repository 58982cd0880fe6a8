// X as panels in shared memory: a row of 16 bytes for each column of W, with 8 tokens of 16 bits or 4 of 32. Behind the
// columns are the rows of zeros that idle lanes read. A block has one panel, or several, one behind the other, with
// successive tokens. Then it reads W once for all of them.
//
// Tokens beyond n become 0. begin() starts to fill the panels, end() waits for them. If panels are filled repeatedly,
// `times` says how often they have been, counted from 0.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

namespace panel {

template <class Value>
struct Row {
  static constexpr int kTokens = panel::kRowBytes / static_cast<int>(sizeof(Value));
  using Tokens = Vector<Value, kTokens>;

  // panel_layout.h says why.
  static SPARSMITH_DEVICE int panel_row(int column) { return (column & ~7) | ((column ^ (column >> 3)) & 7); }

  static SPARSMITH_DEVICE void store(u8* panel, int row, const Tokens& tokens) {
    *reinterpret_cast<Tokens*>(panel + row * panel::kRowBytes) = tokens;
  }
  // A column's tokens, element by element: token t is at x + t * stride. Tokens beyond `valid` become 0.
  static SPARSMITH_DEVICE Tokens load(const Value* x, i64 stride, int valid) {
    Tokens tokens = {};
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
      if (t < valid) tokens[t] = load_coherent(x + t * stride);
    }
    return tokens;
  }
  static SPARSMITH_DEVICE void store_zeros(u8* panel, int width) {
    if (thread_index() < panel::kZeroRows) {
      store(panel, width + thread_index(), Tokens{});
    }
  }
};

// Bytes from one panel to the next.
SPARSMITH_DEVICE u32 stride_of(int width) { return static_cast<u32>(width + panel::kZeroRows) * panel::kRowBytes; }

}  // namespace panel

// From feature-major X[K][N], or from panels P[panel][K][kTokens], which are the same with ldx = kTokens. Columns lie
// in order. Aligned data comes asynchronously. Panels, and X of kTokens tokens, come as one bulk copy per panel that a
// single thread starts (if the device has bulk copies). Other X comes by 16 bytes per column and panel; neighbouring
// threads copy the parts of a column.
template <class Value, int kThreads, int kPanels>
struct FeatureMajorPanel {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kPanels, 1, 2, 4)
  using Row = panel::Row<Value>;
  static constexpr int kTokens = Row::kTokens;
  static constexpr bool kAsynchronous = true;  // begin() waits for nothing
  static constexpr bool kNeighbours = false;   // no block fills another one's panel

  BulkBarrier* barrier;  // of this block, in shared memory
  int full;              // panels whose tokens all exist
  bool bulk = false;

  // Called before the block waits for anything. valid: tokens that exist from the first panel's first token on.
  SPARSMITH_DEVICE FeatureMajorPanel(u8* barrier_, int valid)
      : barrier(reinterpret_cast<BulkBarrier*>(barrier_)), full(valid / kTokens < kPanels ? valid / kTokens : kPanels) {
    if (kBulkCopies && thread_index() == 0 && full > 0) bulk_barrier_init(barrier, full);
  }

  // x: the first panel's first token in its first column. The next panel's is panel_stride elements further.
  SPARSMITH_DEVICE void begin(const Value* x, i64 ldx, i64 panel_stride, int columns, int width, int valid,
                              u8* panels) {
    const u32 stride = panel::stride_of(width);
    SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) Row::store_zeros(panels + p * stride, width);
    const u64 misaligned = (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % panel::kRowBytes;
    if (misaligned != 0) full = 0;
    bulk = kBulkCopies && ldx == kTokens && columns > 0 && full > 0;
    if (bulk) {
      if (thread_index() == 0) {
        SPARSMITH_ROLLED for (int p = 0; p < full; ++p) {
          bulk_copy(panels + p * stride, x + p * panel_stride, columns * panel::kRowBytes, barrier);
        }
      }
    } else if (full > 0) {
      const int beside = kPanels == 1 ? 1 : full;  // threads of a column
      const int together = kThreads / beside;      // columns
      const int p = thread_index() % beside;
      int k = thread_index() / beside;
      const Value* from = x + p * panel_stride + k * ldx;
      if (k < together) {
        SPARSMITH_ROLLED for (; k < columns; k += together, from += together * ldx) {
          async_copy_streaming(panels + p * stride + k * panel::kRowBytes, from);
        }
      }
    }
    SPARSMITH_ROLLED for (int p = full; p < kPanels; ++p) {
      SPARSMITH_ROLLED for (int k = thread_index(); k < columns; k += kThreads) {
        Row::store(panels + p * stride, k, Row::load(x + p * panel_stride + k * ldx, 1, valid - p * kTokens));
      }
    }
  }

  // Every thread of the block calls it; afterwards all may gather.
  SPARSMITH_DEVICE void end(u32 times = 0) const {
    async_commit();
    async_wait<0>();
    block_barrier();
    if (bulk) bulk_wait(barrier, times % 2);
  }
};

// From token-major X[N][K]: a thread loads 16 bytes of columns of each token, all tokens at once, turns them in its
// registers and stores a row for each column. The panel's permutation keeps these stores in different banks. kTogether:
// vectors of each token that are in flight at once, as many as registers have room for.
template <class Value, int kThreads, int kTogether, int kPanels>
struct TokenMajorPanel {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTogether, 1, 2)
  SPARSMITH_TUNE(kPanels, 1, 2, 4)
  using Row = panel::Row<Value>;
  static constexpr int kTokens = Row::kTokens;
  static constexpr bool kAsynchronous = false;
  static constexpr bool kNeighbours = false;
  static constexpr int kColumns = 16 / static_cast<int>(sizeof(Value));

  SPARSMITH_DEVICE TokenMajorPanel(u8* /*barrier*/, int /*valid*/) {}

  // x: the first column of the first panel's first token. The next panel's is panel_stride elements further. valid:
  // tokens that exist from there on.
  SPARSMITH_DEVICE void begin(const Value* x, i64 ldx, i64 panel_stride, int columns, int width, int valid,
                              u8* panels) {
    SPARSMITH_ROLLED for (int p = 0; p < kPanels; ++p) {
      fill(x + p * panel_stride, ldx, columns, width, valid - p * kTokens, panels + p * panel::stride_of(width));
    }
  }

  // Every thread of the block calls it; afterwards all may gather.
  SPARSMITH_DEVICE void end(u32 /*times*/ = 0) const { block_barrier(); }

 private:
  static SPARSMITH_DEVICE void fill(const Value* x, i64 ldx, int columns, int width, int valid, u8* panel) {
    Row::store_zeros(panel, width);
    const u64 misaligned = (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % 16;
    const int vectors = valid >= kTokens && misaligned == 0 ? columns / kColumns : 0;
    int v = thread_index();
    if constexpr (kTogether > 1) {
      SPARSMITH_ROLLED for (; v + (kTogether - 1) * kThreads < vectors; v += kTogether * kThreads) {
        turn<kTogether>(x, ldx, v, panel);
      }
    }
    SPARSMITH_ROLLED for (; v < vectors; v += kThreads) turn<1>(x, ldx, v, panel);
    SPARSMITH_ROLLED for (int k = vectors * kColumns + thread_index(); k < columns; k += kThreads) {
      Row::store(panel, Row::panel_row(k), Row::load(x + k, ldx, valid));
    }
  }

  static SPARSMITH_DEVICE int known_vector(int v) { return static_cast<int>(known_here(static_cast<u32>(v))); }

  // Vectors v, v + kThreads, ... of each token. Addresses of X and of rows are not kept in registers for the next
  // iteration: tokens need most of the registers.
  template <int kCount>
  static SPARSMITH_DEVICE void turn(const Value* x, i64 ldx, int v, u8* panel) {
    Vector<Value, kColumns> tiles[kCount][kTokens];
    SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) {
      const Value* at = x + (known_vector(v) + i * kThreads) * kColumns;
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t, at += ldx) {
        tiles[i][t] = load_coherent(reinterpret_cast<const Vector<Value, kColumns>*>(at));
      }
    }
    const int vector = known_vector(v);
    SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) {
      SPARSMITH_UNROLL for (int c = 0; c < kColumns; ++c) {
        typename Row::Tokens tokens;
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) tokens[t] = tiles[i][t][c];
        Row::store(panel, Row::panel_row((vector + i * kThreads) * kColumns + c), tokens);
      }
    }
  }
};

}  // namespace sparsmith
