// X as a panel in shared memory: a row of 16 bytes for each column of W, that holds the block's 8 tokens of 16 bits or
// 4 of 32. Behind the columns lie the rows of zeros that idle lanes read.
//
// Tokens beyond n become 0.
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
  // Where the sum of a slot's token stands, at or behind a multiple of 4 tokens. Slots take turns in which of their
  // quads comes first: 8 lanes that reach for the same quad of 8 neighbouring slots meet different banks.
  static SPARSMITH_DEVICE u32 sum_index(u32 slot, int token) {
    const u32 turn = kTokens == 8 ? slot & 4U : 0U;
    return slot * kTokens + (static_cast<u32>(token) ^ turn);
  }
  static SPARSMITH_DEVICE void store_zeros(u8* panel, int width) {
    if (thread_index() < panel::kZeroRows) {
      store(panel, width + thread_index(), Tokens{});
    }
  }
};

}  // namespace panel

// From feature-major X[K][N], or from panels P[panel][K][kTokens], which are the same with ldx = kTokens: a thread
// copies a column's tokens as one vector where X is aligned.
template <class Value, int kThreads>
struct FeatureMajorPanel {
  SPARSMITH_ROLE(prolog)
  using Row = panel::Row<Value>;
  static constexpr int kTokens = Row::kTokens;

  // x: the panel's first token of its first column. valid: tokens that exist.
  static SPARSMITH_DEVICE void fill(const Value* x, i64 ldx, int columns, int width, int valid, u8* panel) {
    Row::store_zeros(panel, width);
    const u64 misaligned = (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % panel::kRowBytes;
    if (valid >= kTokens && misaligned == 0) {
      SPARSMITH_ROLLED for (int first = thread_index(); first < columns; first += kBatch * kThreads) {
        typename Row::Tokens tokens[kBatch];
        SPARSMITH_UNROLL for (int b = 0; b < kBatch; ++b) {
          int k = first + b * kThreads;
          if (k >= columns) k = columns - 1;  // loaded in vain: nothing that a branch would have to keep
          tokens[b] = load_coherent(reinterpret_cast<const typename Row::Tokens*>(x + k * ldx));
        }
        SPARSMITH_UNROLL for (int b = 0; b < kBatch; ++b) {
          const int k = first + b * kThreads;
          if (k < columns) Row::store(panel, Row::panel_row(k), tokens[b]);
        }
      }
      return;
    }
    SPARSMITH_ROLLED for (int k = thread_index(); k < columns; k += kThreads) {
      typename Row::Tokens tokens = {};
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
        if (t < valid) tokens[t] = load_coherent(x + k * ldx + t);
      }
      Row::store(panel, Row::panel_row(k), tokens);
    }
  }

 private:
  static constexpr int kBatch = 4;  // columns that a thread has on their way at once
};

// From token-major X[N][K]: a thread takes 16 bytes of columns of each token, all of them at once, turns them in its
// registers and stores a row for each column; the panel's permutation keeps those stores out of one another's banks.
template <class Value, int kThreads>
struct TokenMajorPanel {
  SPARSMITH_ROLE(prolog)
  using Row = panel::Row<Value>;
  static constexpr int kTokens = Row::kTokens;
  static constexpr int kColumns = 16 / static_cast<int>(sizeof(Value));

  // x: the panel's first column of its first token. valid: tokens that exist.
  static SPARSMITH_DEVICE void fill(const Value* x, i64 ldx, int columns, int width, int valid, u8* panel) {
    Row::store_zeros(panel, width);
    const u64 misaligned = (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % 16;
    const int vectors = valid >= kTokens && misaligned == 0 ? columns / kColumns : 0;
    SPARSMITH_ROLLED for (int v = thread_index(); v < vectors; v += kThreads) turn(x + v * kColumns, ldx, v, panel);
    SPARSMITH_ROLLED for (int k = vectors * kColumns + thread_index(); k < columns; k += kThreads) {
      typename Row::Tokens tokens = {};
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
        if (t < valid) tokens[t] = load_coherent(x + t * ldx + k);
      }
      Row::store(panel, Row::panel_row(k), tokens);
    }
  }

 private:
  static SPARSMITH_DEVICE void turn(const Value* from, i64 ldx, int v, u8* panel) {
    Vector<Value, kColumns> tile[kTokens];
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t, from += ldx) {
      tile[t] = load_coherent(reinterpret_cast<const Vector<Value, kColumns>*>(from));
    }
    SPARSMITH_UNROLL for (int c = 0; c < kColumns; ++c) {
      typename Row::Tokens tokens;
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) tokens[t] = tile[t][c];
      Row::store(panel, Row::panel_row(v * kColumns + c), tokens);
    }
  }
};

}  // namespace sparsmith
