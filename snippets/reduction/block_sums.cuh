// Makes outputs from the partial sums of a block's warpgroups, or of all blocks of a cluster, which share out the
// columns.
//
// Warpgroups leave their sums in shared memory (WarpgroupSums::put_partials()). A thread adds up the sums of a quad,
// four neighbouring rows of a token, in the order of warpgroups. It adds several quads together, so that it waits once
// for all of their loads.
//
// In a cluster, every block finishes a share of the outputs. It stores its sums for the shares of other blocks to their
// shared memory, behind their own partial sums; no thread waits for a store. Its sums for its own share stay in
// registers. When all blocks have stored, each adds its share's sums in the order of blocks: two runs give equal bits.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Sums: WarpgroupSums or TileSums. kBlocks: blocks of the cluster, along the grid's z; 1: no cluster. kBlockThreads:
// threads of the block, if it has warps without sums.
template <class Sums, class Output, bool kTokenMajor, int kWarpgroups, int kBlocks,
          int kBlockThreads = kWarpgroups * kWarpgroupThreads>
struct BlockSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kWarpgroups, 1, 2, 3, 4)
  SPARSMITH_TUNE(kBlocks, 1, 2, 4)

  static constexpr u32 kTokens = Sums::kTokens;
  static constexpr u32 kThreads = kBlockThreads;
  static constexpr u32 kTokenQuads = Sums::kRows / 4;
  static constexpr u32 kShare = kTokenQuads * kTokens / kBlocks;  // quads that a block finishes, at most
  static constexpr int kSteps = static_cast<int>((kShare + kThreads - 1) / kThreads);
  static constexpr int kMostTogether = kThreads < 4 * kWarpgroupThreads ? 4 : 2;  // four have few registers each
  static constexpr int kTogether = kSteps < kMostTogether ? kSteps : kMostTogether;

  // Bytes of shared memory: the warpgroups' partial sums; in a cluster also the other blocks' sums of this share.
  static constexpr int kPartialBytes = kWarpgroups * Sums::kPartialBytes;
  static constexpr int kOtherBytes = (kBlocks - 1) * static_cast<int>(kShare) * 16;

  const u8* partials;
  u8* others;
  const u32* first_rows;  // in shared memory, of every kPartRows rows
  const Output& output;
  int rows;
  int first_token;
  int n;

  // Every thread of the block calls it, behind a barrier after which all partial sums are there. In a cluster, all
  // threads of all blocks call it, between an arrival at the cluster's barrier, which says that `others` is no longer
  // needed, and the wait for this barrier.
  SPARSMITH_DEVICE void finish() const {
    if constexpr (kBlocks == 1) {
      const u32 count = quads();
      SPARSMITH_ROLLED for (u32 first = thread(); first < count; first += kTogether * kThreads) {
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

  static SPARSMITH_DEVICE u32 thread() { return static_cast<u32>(thread_index()); }
  SPARSMITH_DEVICE u32 tokens() const {
    const u32 left = static_cast<u32>(n - first_token);
    return left < kTokens ? left : kTokens;
  }
  SPARSMITH_DEVICE u32 quads() const { return kTokenQuads * (kTokenMajor ? tokens() : kTokens); }

  // Neighbouring threads take neighbouring outputs. Of feature-major outputs, they take those of two quads by turns,
  // because the partial sums of a token's neighbours lie in only four banks.
  static SPARSMITH_DEVICE u32 quad_of(u32 i) { return kTokenMajor ? i % kTokenQuads : i / (2 * kTokens) * 2 + i % 2; }
  static SPARSMITH_DEVICE u32 token_of(u32 i) { return kTokenMajor ? i / kTokenQuads : i / 2 % kTokens; }

  // The sums of quads first, first + kThreads, ... below `end`. REQUIRES: `first` is below it. Quads beyond `end` count
  // as `first`.
  template <int kCount>
  SPARSMITH_DEVICE void add_warpgroups(u32 first, u32 end, Quad (&sums)[kCount]) const {
    SPARSMITH_UNROLL for (int e = 0; e < kCount; ++e) {
      const u32 i = first + e * kThreads < end ? first + e * kThreads : first;
      const u8* from = partials + (token_of(i) * Sums::kLine + quad_of(i) * 4) * 4;
      sums[e] = *reinterpret_cast<const Quad*>(from);
      SPARSMITH_UNROLL for (int g = 1; g < kWarpgroups; ++g) {
        add(*reinterpret_cast<const Quad*>(from + g * Sums::kPartialBytes), sums[e]);
      }
    }
  }

  static SPARSMITH_DEVICE void add(const Quad& addend, Quad& sum) {
    SPARSMITH_UNROLL for (int k = 0; k < 4; ++k) sum[k] += addend[k];
  }

  // Finishes the same quads: all reads come before all writes.
  template <int kCount>
  SPARSMITH_DEVICE void store(u32 first, u32 end, const Quad (&sums)[kCount]) const {
    typename Output::template Finished<4> finished[kCount];
    u32 y_rows[kCount];
    SPARSMITH_UNROLL for (int e = 0; e < kCount; ++e) {
      constexpr u32 kPartQuads = scatter::kPartRows / 4;
      const u32 i = first + e * kThreads;
      const bool there = i < end && token_of(i) < tokens();
      y_rows[e] = there ? first_rows[quad_of(i) / kPartQuads] + quad_of(i) % kPartQuads * 4 : static_cast<u32>(rows);
      output.finish_rows(y_rows[e], rows, first_token + token_of(i), sums[e].elements, finished[e]);
    }
    SPARSMITH_UNROLL for (int e = 0; e < kCount; ++e) {
      output.store_rows(y_rows[e], rows, first_token + token_of(first + e * kThreads), finished[e]);
    }
  }

  SPARSMITH_DEVICE void finish_share() const {
    const u32 share = quads() / kBlocks;
    const u32 rank = static_cast<u32>(cluster_rank());
    cluster_wait();
    SPARSMITH_UNROLL for (u32 k = 1; k < kBlocks; ++k) {
      const u32 owner = (rank + k) % kBlocks;
      const ClusterAddress to = in_block(shared_address(place(rank, owner)), static_cast<int>(owner));
      SPARSMITH_ROLLED for (u32 first = thread(); first < share; first += kTogether * kThreads) {
        Quad sums[kTogether];
        add_warpgroups(owner * share + first, (owner + 1) * share, sums);
        SPARSMITH_UNROLL for (int e = 0; e < kTogether; ++e) {
          const u32 at = first + e * kThreads;
          if (at < share) store_cluster(advanced(to, at * 16), sums[e]);
        }
      }
    }
    cluster_arrive();
    // Threads without outputs take the first quad of the share, and store nothing.
    const u32 first = thread() < share ? thread() : 0;
    const u32 end = thread() < share ? share : 0;
    Quad sums[kSteps];
    add_warpgroups(rank * share + first, rank * share + end, sums);
    cluster_wait();
    add_blocks(rank, first, end, sums);
    store(rank * share + first, rank * share + end, sums);
  }

  // The place of the sums from block `from` in the shared memory of block `owner`.
  SPARSMITH_DEVICE u8* place(u32 from, u32 owner) const {
    return others + (from - (from > owner ? 1 : 0)) * (kShare * 16);
  }

  // Adds the other blocks' sums of quads first, first + kThreads, ... of the share to the own sums, in the order of
  // blocks.
  SPARSMITH_DEVICE void add_blocks(u32 rank, u32 first, u32 end, Quad (&sums)[kSteps]) const {
    SPARSMITH_UNROLL for (int e = 0; e < kSteps; ++e) {
      const u32 at = first + e * kThreads < end ? first + e * kThreads : first;
      Quad total = {};
      SPARSMITH_UNROLL for (u32 b = 0; b < kBlocks; ++b) {
        Quad addend = sums[e];
        if (b != rank) addend = *reinterpret_cast<const Quad*>(place(b, rank) + at * 16);
        add(addend, total);
      }
      sums[e] = total;
    }
  }
};

}  // namespace sparsmith
