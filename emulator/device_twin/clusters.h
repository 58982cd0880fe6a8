// Twin of snippets/device/clusters.cuh.
#pragma once

#include "emulator/device_twin/shared_memory.h"
#include "emulator/device_twin/types.h"

extern "C" {
int sparsmith_emulator_cluster_rank() __attribute__((const));
void sparsmith_emulator_cluster_arrive(int line);
void sparsmith_emulator_cluster_wait(int line);
unsigned char* sparsmith_emulator_in_block(const unsigned char* own, int rank, int line);
void sparsmith_emulator_check_cluster_access(const unsigned char* at, int bytes, int line);
}

namespace sparsmith {

constexpr bool kClusters = true;
SPARSMITH_DEVICE int cluster_rank() { return sparsmith_emulator_cluster_rank(); }
SPARSMITH_DEVICE void cluster_arrive(int line = __builtin_LINE()) { sparsmith_emulator_cluster_arrive(line); }
SPARSMITH_DEVICE void cluster_arrive_relaxed(int line = __builtin_LINE()) { sparsmith_emulator_cluster_arrive(line); }
SPARSMITH_DEVICE void cluster_wait(int line = __builtin_LINE()) { sparsmith_emulator_cluster_wait(line); }
struct ClusterAddress {
  u8* at;
};
SPARSMITH_DEVICE ClusterAddress in_block(SharedAddress own, int rank, int line = __builtin_LINE()) {
  return {sparsmith_emulator_in_block(own.at, rank, line)};
}
SPARSMITH_DEVICE ClusterAddress advanced(ClusterAddress from, u32 bytes) { return {from.at + bytes}; }
template <class T>
SPARSMITH_DEVICE void store_cluster(ClusterAddress to, const T& value, int line = __builtin_LINE()) {
  sparsmith_emulator_check_cluster_access(to.at, sizeof(T), line);
  *reinterpret_cast<T*>(to.at) = value;
}
template <class T>
SPARSMITH_DEVICE T load_cluster(ClusterAddress from, int line = __builtin_LINE()) {
  sparsmith_emulator_check_cluster_access(from.at, sizeof(T), line);
  return *reinterpret_cast<const T*>(from.at);
}

}  // namespace sparsmith
