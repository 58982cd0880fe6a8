// Every block of a cluster has a part of each sum. The parts go from shared memory to shared memory and are added in
// the order of the blocks, so that two runs give equal bits.
//
// Each block finishes kOutputs / kParts of the kOutputs outputs, by its place in the cluster. It sends its sums of the
// other outputs to the blocks that finish them.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kParts: blocks of a cluster; 1: no cluster, and nothing to do. A kernel constructs it before anything else.
template <int kParts, int kOutputs, int kThreads>
struct ClusterSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kParts, 1, 2, 4)
  static_assert(kOutputs % kParts == 0, "blocks finish equally many outputs");

  static constexpr int kOwn = kOutputs / kParts;
  static constexpr int kBytes = kParts > 1 ? kOutputs * 4 : 0;

  float* sent;  // in shared memory, [part][kOwn]
  int part = 0;
  bool used = false;

  SPARSMITH_DEVICE explicit ClusterSums(u8* sent_) : sent(reinterpret_cast<float*>(sent_)) {
    if constexpr (kParts > 1) {
      part = cluster_rank();
      cluster_arrive_relaxed();  // nothing is to be seen yet
    }
  }

  // Sends the other blocks their sums and waits for the own ones. `sum_of(i)`: this block's sum of output i. All
  // threads of the cluster call it equally often. The threads of the block call it after finish() of the previous
  // outputs.
  template <class SumOf>
  SPARSMITH_DEVICE void exchange(const SumOf& sum_of) {
    if constexpr (kParts > 1) {
      if (used) cluster_arrive();
      cluster_wait();  // the others run, and have read what was sent before
      used = true;
      SPARSMITH_UNROLL for (int distance = 1; distance < kParts; ++distance) {
        const int other = part ^ distance;
        const ClusterAddress to = in_block(shared_address(sent + part * kOwn), other);
        for (int i = thread_index(); i < kOwn; i += kThreads) {
          store_cluster(advanced(to, static_cast<u32>(i) * 4), sum_of(other * kOwn + i));
        }
      }
      cluster_arrive();
      cluster_wait();
    }
  }

  // The first of the outputs that this block finishes.
  SPARSMITH_DEVICE int first() const { return part * kOwn; }
  // The total of one of them; `own` is this block's sum.
  SPARSMITH_DEVICE float total(int output, float own) const {
    if constexpr (kParts == 1) return own;
    float total = 0.0F;
    SPARSMITH_UNROLL for (int p = 0; p < kParts; ++p) {
      total += p == part ? own : sent[p * kOwn + output - part * kOwn];
    }
    return total;
  }

  // Every thread calls it before it ends.
  SPARSMITH_DEVICE void end() const {
    if constexpr (kParts > 1) {
      if (!used) cluster_wait();
    }
  }
};

}  // namespace sparsmith
