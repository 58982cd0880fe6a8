// X as panels in shared memory (panel_input.cuh), filled by the two blocks of a cluster together: each block loads half
// of the columns, and stores rows to its own panel and to its partner's. So L2 sends each block half as much as a block
// that fills its panel alone.
//
// The constructor arrives at the cluster's barrier. begin() waits there before it stores to the partner, so that the
// partner's start hides behind the loads in between. end() is the cluster's next barrier. Behind it no block touches
// the other's shared memory any more, and each block may end at any time.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_input.cuh"

namespace sparsmith {

namespace panel {

// The common part of both kinds: the barriers.
struct Pair {
  static constexpr bool kAsynchronous = false;

  SPARSMITH_DEVICE Pair(u8* /*barrier*/, int /*valid*/) { cluster_arrive_relaxed(); }
  // Every thread of both blocks calls it; afterwards all may gather.
  SPARSMITH_DEVICE void end() const {
    cluster_arrive();
    cluster_wait();
  }
};

}  // namespace panel

// From feature-major X[K][N]. kNeighbours: the blocks' panels are neighbours, block_index_x() 2 c and 2 c + 1. Their 16
// bytes of a column are the halves of one sector. Threads 2 i and 2 i + 1 load both halves of a column, and each stores
// to the panel whose half it has. The second panel may have no tokens: its block then helps the first. Otherwise the
// blocks work on parts of the rows of W with the same panel, and a thread stores a column to both. kTogether: loads of
// a thread that are in flight at once, as many as registers have room for.
template <class Value, int kThreads, bool kNeighbours_, int kTogether>
struct FeatureMajorPair : panel::Pair {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTogether, 4, 8)
  using Row = panel::Row<Value>;
  using Tokens = typename Row::Tokens;
  static constexpr int kTokens = Row::kTokens;
  static constexpr bool kNeighbours = kNeighbours_;
  static constexpr int kSides = kNeighbours ? 2 : 1;   // threads that share a column
  static constexpr int kStep = 2 * kThreads / kSides;  // columns that both blocks load at once

  using panel::Pair::Pair;

  // x: the first token of the block's own panel in its first column. valid: tokens that exist from there on.
  SPARSMITH_DEVICE void begin(const Value* x, i64 ldx, i64 /*panel_stride*/, int columns, int width, int valid,
                              u8* panel) {
    Row::store_zeros(panel, width);
    const int rank = cluster_rank();
    const ClusterAddress partner = in_block(shared_address(panel), rank ^ 1);
    const int column = (rank * kThreads + thread_index()) / kSides;
    // Distance, in panels, from the own panel to the panel for which this thread loads.
    const int distance = kNeighbours ? thread_index() % 2 - rank : 0;
    x += distance * kTokens;
    valid -= distance * kTokens;
    const u64 misaligned = (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % panel::kRowBytes;
    const bool whole = valid >= kTokens && misaligned == 0;
    const int end = whole ? columns : 0;
    const Value* next = x + column * ldx;
    SPARSMITH_ROLLED for (int first = 0; first < columns; first += kTogether * kStep) {
      Tokens rows[kTogether];
      SPARSMITH_UNROLL for (int i = 0; i < kTogether; ++i, next += kStep * ldx) {
        rows[i] = load_coherent_if(first + column + i * kStep < end, reinterpret_cast<const Tokens*>(next));
      }
      if (first == 0) cluster_wait();  // the partner runs
      SPARSMITH_UNROLL for (int i = 0; i < kTogether; ++i) {
        const int k = first + column + i * kStep;
        if (k < end) store(panel, partner, distance, k, rows[i]);
      }
    }
    if (whole || valid <= 0) return;
    SPARSMITH_ROLLED for (int k = column; k < columns; k += kStep) {
      store(panel, partner, distance, k, Row::load(x + k * ldx, 1, valid));
    }
  }

 private:
  static SPARSMITH_DEVICE void store(u8* panel, ClusterAddress partner, int distance, int row, const Tokens& tokens) {
    if (!kNeighbours || distance == 0) Row::store(panel, row, tokens);
    if (!kNeighbours || distance != 0) store_cluster(advanced(partner, row * panel::kRowBytes), tokens);
  }
};

// From token-major X[N][K], for two blocks that work on parts of the rows of W with the same panel. A thread turns a
// few columns of each token, as TokenMajorPanel does, and stores a row for each column to both panels. kColumns: as
// many columns as registers have room for.
template <class Value, int kThreads, int kColumns>
struct TokenMajorPair : panel::Pair {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kColumns, 4, 8)
  static_assert(kColumns * sizeof(Value) <= 16, "one load is at most 16 bytes");
  using Row = panel::Row<Value>;
  using Tokens = typename Row::Tokens;
  using Columns = Vector<Value, kColumns>;
  static constexpr int kTokens = Row::kTokens;
  static constexpr bool kNeighbours = false;
  static constexpr int kPairThreads = 2 * kThreads;

  using panel::Pair::Pair;

  // x: the panel's first column of its first token. valid: tokens that exist from there on.
  SPARSMITH_DEVICE void begin(const Value* x, i64 ldx, i64 /*panel_stride*/, int columns, int width, int valid,
                              u8* panel) {
    Row::store_zeros(panel, width);
    const int rank = cluster_rank();
    const ClusterAddress partner = in_block(shared_address(panel), rank ^ 1);
    const int thread = rank * kThreads + thread_index();
    const u64 misaligned = (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % sizeof(Columns);
    const int vectors = valid >= kTokens && misaligned == 0 ? columns / kColumns : 0;
    cluster_wait();  // the partner runs
    SPARSMITH_ROLLED for (int v = thread; v < vectors; v += kPairThreads) {
      Columns tiles[kTokens];
      const Value* at = x + v * kColumns;
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t, at += ldx) {
        tiles[t] = load_coherent(reinterpret_cast<const Columns*>(at));
      }
      SPARSMITH_UNROLL for (int c = 0; c < kColumns; ++c) {
        Tokens tokens;
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) tokens[t] = tiles[t][c];
        store(panel, partner, v * kColumns + c, tokens);
      }
    }
    SPARSMITH_ROLLED for (int k = vectors * kColumns + thread; k < columns; k += kPairThreads) {
      store(panel, partner, k, Row::load(x + k, ldx, valid));
    }
  }

 private:
  static SPARSMITH_DEVICE void store(u8* panel, ClusterAddress partner, int column, const Tokens& tokens) {
    const int row = Row::panel_row(column);
    Row::store(panel, row, tokens);
    store_cluster(advanced(partner, row * panel::kRowBytes), tokens);
  }
};

}  // namespace sparsmith
