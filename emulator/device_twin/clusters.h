// Twin of snippets/device/clusters.cuh.
#pragma once

#include "emulator/device_twin/shared_memory.h"
#include "emulator/device_twin/types.h"

namespace sparsmith {

constexpr bool kClusters = true;
extern int cluster_rank() SPARSMITH_EMULATED(cluster_rank) __attribute__((const));
extern void cluster_arrive(int line = __builtin_LINE()) SPARSMITH_EMULATED(cluster_arrive);
extern void cluster_arrive_relaxed(int line = __builtin_LINE()) SPARSMITH_EMULATED(cluster_arrive);
extern void cluster_wait(int line = __builtin_LINE()) SPARSMITH_EMULATED(cluster_wait);
struct ClusterAddress {
  u8* at;
};
extern u8* place_in_block(const u8* own, int rank, int line) SPARSMITH_EMULATED(in_block);
extern void check_cluster_access(const u8* at, int bytes, int line) SPARSMITH_EMULATED(check_cluster_access);
SPARSMITH_DEVICE ClusterAddress in_block(SharedAddress own, int rank, int line = __builtin_LINE()) {
  return {place_in_block(own.at, rank, line)};
}
SPARSMITH_DEVICE ClusterAddress advanced(ClusterAddress from, u32 bytes) { return {from.at + bytes}; }
template <class T>
SPARSMITH_DEVICE void store_cluster(ClusterAddress to, const T& value, int line = __builtin_LINE()) {
  check_cluster_access(to.at, sizeof(T), line);
  *reinterpret_cast<T*>(to.at) = value;
}
}  // namespace sparsmith
