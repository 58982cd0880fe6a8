// Clusters (from sm_90 on): blocks, neighbours in the grid, that run at the same time and reach each other's shared
// memory. How many they are says the launch (PlanStep::cluster).
#pragma once

#include "snippets/device/shared_memory.cuh"
#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/clusters.h"
#else

namespace sparsmith {

constexpr bool kClusters = SPARSMITH_SM_90;  // otherwise the functions below are not to be called

// Of this block in its cluster: x first, then y, then z. 0 in a launch without clusters.
SPARSMITH_DEVICE int cluster_rank() {
  u32 rank = 0;
  if constexpr (kClusters) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
// A barrier in two halves: every thread of all blocks of the cluster arrives, and later waits for all the others'
// arrivals; what they did before those is then seen. Before a block touches another's shared memory it has to know that
// the other one runs, and no block may end while others still touch its own: a barrier in front, and one behind.
SPARSMITH_DEVICE void cluster_arrive() { SPARSMITH_ASM_SM_90("barrier.cluster.arrive.release.aligned;" :: : "memory"); }
// Arrives without showing anything: that a block runs, or needs no more what others will store to. It waits for no
// access to memory, which the other one does, and for those of the whole device.
SPARSMITH_DEVICE void cluster_arrive_relaxed() {
  SPARSMITH_ASM_SM_90("barrier.cluster.arrive.relaxed.aligned;" :: : "memory");
}
SPARSMITH_DEVICE void cluster_wait() { SPARSMITH_ASM_SM_90("barrier.cluster.wait.acquire.aligned;" :: : "memory"); }

// A place in the shared memory of a block of the cluster.
struct ClusterAddress {
  u32 at;
};
// The place in the block of that rank that `own` is in this one.
SPARSMITH_DEVICE ClusterAddress in_block(SharedAddress own, int rank) {
  ClusterAddress there = {own.at};
  if constexpr (kClusters) asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there.at) : "r"(own.at), "r"(rank));
  return there;
}
SPARSMITH_DEVICE ClusterAddress advanced(ClusterAddress from, u32 bytes) { return {from.at + bytes}; }

// 4, 8 or 16 bytes, aligned to them.
template <class T>
SPARSMITH_DEVICE void store_cluster(ClusterAddress to, const T& value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "one store of 4, 8 or 16 bytes");
  u32 words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
  if constexpr (sizeof(T) == 4) {
    SPARSMITH_ASM_SM_90("st.shared::cluster.u32 [%0], %1;" ::"r"(to.at), "r"(words[0]) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    SPARSMITH_ASM_SM_90("st.shared::cluster.v2.u32 [%0], {%1, %2};" ::"r"(to.at), "r"(words[0]),
                        "r"(words[1]) : "memory");
  } else {
    SPARSMITH_ASM_SM_90("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to.at), "r"(words[0]), "r"(words[1]),
                        "r"(words[2]), "r"(words[3]) : "memory");
  }
}

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
