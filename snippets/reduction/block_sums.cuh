// From the partial sums of a block's warpgroups to outputs; or of all blocks of a cluster, which share out the columns.
//
// Warpgroups leave their sums in shared memory (WarpgroupSums::put_partials()). A thread adds up those of four
// neighbouring rows of a token at a time, in the order of warpgroups, several such quads together, so that one wait is
// for all of their loads.
//
// In a cluster every block finishes a share of the outputs. What it has summed up of the others' shares it stores to
// their shared memory, behind its own partial sums, and nobody waits for a store; what it has of its own stays in
// registers. When all have stored, each adds its share's sums in the order of blocks: two runs give equal bits.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Sums: WarpgroupSums. kBlocks: of the cluster, which is kBlocks blocks along the grid's z; 1: no cluster.
template <class Sums, class Output, bool kTokenMajor, int kWarpgroups, int kBlocks>
struct BlockSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kWarpgroups, 1, 2, 3, 4)
  SPARSMITH_TUNE(kBlocks, 1, 2, 4)

  static constexpr int kTokens = Sums::kTokens;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kTokenQuads = Sums::kRows / 4;
  static constexpr int kShare = kTokenQuads * kTokens / kBlocks;  // quads that a block finishes, at most
  static constexpr int kSteps = (kShare + kThreads - 1) / kThreads;
  static constexpr int kTogether = kSteps < 4 ? kSteps : 4;

  // Shared memory: the warpgroups' partial sums; then, in a cluster, this share's sums of the other blocks.
  static constexpr int kOthersAt = kWarpgroups * Sums::kPartialBytes;
  static constexpr int kBytes = kOthersAt + (kBlocks - 1) * kShare * 16;

  u8* shared;
  const u32* first_rows;  // in shared memory, of every kPartRows rows
  const Output& output;
  int rows;
  int first_token;
  int n;

  // Every thread of the block, behind a barrier at which all partial sums are there. In a cluster: of all its blocks;
  // all have arrived at its barrier since they last needed what these sums take the place of, and not waited there.
  SPARSMITH_DEVICE void finish() const {
    if constexpr (kBlocks == 1) {
      const int count = quads();
      SPARSMITH_ROLLED for (int first = thread_index(); first < count; first += kTogether * kThreads) {
        Quad sums[kTogether];
        add_warpgroups(first, count, sums);
        store(first, count, sums);
      }
    } else {
      finish_share();
    }
  }

 private:
  using Quad = Vector<float, 4>;

  SPARSMITH_DEVICE int tokens() const { return n - first_token < kTokens ? n - first_token : kTokens; }
  SPARSMITH_DEVICE int quads() const { return kTokenQuads * (kTokenMajor ? tokens() : kTokens); }

  // Neighbouring threads take outputs that lie side by side; of feature-major ones those of two quads by turns, since
  // the partial sums of a token's neighbours lie in four banks only.
  static SPARSMITH_DEVICE int quad_of(int i) { return kTokenMajor ? i % kTokenQuads : i / (2 * kTokens) * 2 + i % 2; }
  static SPARSMITH_DEVICE int token_of(int i) { return kTokenMajor ? i / kTokenQuads : i / 2 % kTokens; }

  // Of the quads first, first + kThreads, ... below `end`; `first` is.
  template <int kCount>
  SPARSMITH_DEVICE void add_warpgroups(int first, int end, Quad (&sums)[kCount]) const {
    const float* partials = reinterpret_cast<const float*>(shared);
    SPARSMITH_UNROLL for (int e = 0; e < kCount; ++e) {
      const int i = first + e * kThreads < end ? first + e * kThreads : first;
      sums[e] = {};
      SPARSMITH_UNROLL for (int g = 0; g < kWarpgroups; ++g) {
        const float* from = partials + (g * kTokens + token_of(i)) * Sums::kLine + quad_of(i) * 4;
        add(*reinterpret_cast<const Quad*>(from), sums[e]);
      }
    }
  }

  static SPARSMITH_DEVICE void add(const Quad& addend, Quad& sum) {
    SPARSMITH_UNROLL for (int k = 0; k < 4; ++k) sum[k] += addend[k];
  }

  // The same quads, all that is read before all that is written.
  template <int kCount>
  SPARSMITH_DEVICE void store(int first, int end, const Quad (&sums)[kCount]) const {
    typename Output::template Finished<4> finished[kCount];
    u32 y_rows[kCount];
    SPARSMITH_UNROLL for (int e = 0; e < kCount; ++e) {
      const int i = first + e * kThreads;
      const bool there = i < end && token_of(i) < tokens();
      const int quad = there ? quad_of(i) : 0;
      constexpr int kPartQuads = scatter::kPartRows / 4;
      y_rows[e] = there ? first_rows[quad / kPartQuads] + quad % kPartQuads * 4 : static_cast<u32>(rows);
      output.finish_rows(y_rows[e], rows, first_token + token_of(i), sums[e].elements, finished[e]);
    }
    SPARSMITH_UNROLL for (int e = 0; e < kCount; ++e) {
      output.store_rows(y_rows[e], rows, first_token + token_of(first + e * kThreads), finished[e]);
    }
  }

  SPARSMITH_DEVICE void finish_share() const {
    const int share = quads() / kBlocks;
    const int rank = cluster_rank();
    const int first = thread_index();
    cluster_wait();  // nobody needs what stood where sums are stored to
    SPARSMITH_UNROLL for (int k = 1; k < kBlocks; ++k) {
      const int owner = (rank + k) % kBlocks;
      const int slot = rank - (rank > owner ? 1 : 0);
      const ClusterAddress to = in_block(shared_address(shared + kOthersAt), owner);
      SPARSMITH_ROLLED for (int i = first; i < share; i += kTogether * kThreads) {
        Quad sums[kTogether];
        add_warpgroups(owner * share + i, (owner + 1) * share, sums);
        SPARSMITH_UNROLL for (int e = 0; e < kTogether; ++e) {
          const int at = i + e * kThreads;
          if (at < share) store_cluster(advanced(to, static_cast<u32>((slot * kShare + at) * 16)), sums[e]);
        }
      }
    }
    cluster_arrive();
    Quad own[kSteps];
    if (first < share) add_warpgroups(rank * share + first, (rank + 1) * share, own);
    cluster_wait();
    if (first >= share) return;
    add_blocks(rank, first, share, own);
    store(rank * share + first, (rank + 1) * share, own);
  }

  // To the own sums of quads first, first + kThreads, ... of the share those of the others.
  SPARSMITH_DEVICE void add_blocks(int rank, int first, int share, Quad (&sums)[kSteps]) const {
    const Quad* others = reinterpret_cast<const Quad*>(shared + kOthersAt);
    SPARSMITH_UNROLL for (int e = 0; e < kSteps; ++e) {
      const int at = first + e * kThreads < share ? first + e * kThreads : first;
      Quad total = {};
      SPARSMITH_UNROLL for (int b = 0; b < kBlocks; ++b) {
        Quad addend = sums[e];
        if (b != rank) addend = others[(b - (b > rank ? 1 : 0)) * kShare + at];
        add(addend, total);
      }
      sums[e] = total;
    }
  }
};

}  // namespace sparsmith
