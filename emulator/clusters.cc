// Clusters of ThreadBlock: their barrier, and accesses to the shared memory of other blocks.
//
// Who arrives lets the others run first: so what a thread does between its arrival and its wait comes, as a rule, after
// the barrier is complete, and meets what others do behind it.
#include <fmt/format.h>

#include "emulator/thread_block.h"

namespace sparsmith {

std::array<std::int64_t, 3> ThreadBlock::coordinates(int rank, const std::array<std::int64_t, 3>& first) const {
  const auto& cluster = launch_->cluster;
  return {first[0] + rank % cluster[0], first[1] + rank / cluster[0] % cluster[1],
          first[2] + rank / cluster[0] / cluster[1]};
}

void ThreadBlock::cluster_arrive() {
  Thread& thread = running();
  if (thread.cluster_arrivals != thread.cluster_waits)
    fail([] { return "arrives at the cluster's barrier again, and has not waited there"; });
  ++thread.cluster_arrivals;
  if (++at_cluster_barrier_ == live_) release_cluster_barrier();
  make_ready(current_);
  wait_for_turn();
}

void ThreadBlock::cluster_wait() {
  Thread& thread = running();
  if (thread.cluster_arrivals == thread.cluster_waits)
    fail([] { return "waits at the cluster's barrier, where it has not arrived"; });
  if (cluster_barriers_ < thread.cluster_arrivals) {
    wait_for_turn(Wait::kClusterBarrier);
  }
  ++thread.cluster_waits;
}

void ThreadBlock::release_cluster_barrier() {
  at_cluster_barrier_ = 0;
  ++cluster_barriers_;
  checker_.begin_phase();
  for (int i = 0; i < thread_numbers(); ++i) {
    if (thread_of(i).wait == Wait::kClusterBarrier) make_ready(i);
  }
}

std::byte* ThreadBlock::in_block(const std::byte* own, int rank) {
  const auto offset = static_cast<std::uint64_t>(own - shared_memory());
  if (offset >= DeviceMemory::kBlockSharedBytes) {
    fail([&] { return fmt::format("asks where {} is in another block", describe_address(own, 1)); });
  }
  if (rank < 0 || rank >= static_cast<int>(blocks_.size()))
    fail([&] { return fmt::format("asks for block {} of a cluster of {}", rank, blocks_.size()); });
  return shared_memory_of(rank) + offset;
}

void ThreadBlock::check_cluster_access(const std::byte* at, int bytes) {
  if (reinterpret_cast<std::uintptr_t>(at) % static_cast<std::uintptr_t>(bytes) != 0)
    fail_misaligned(at, static_cast<std::uint32_t>(bytes));
  const auto offset = static_cast<std::uint64_t>(at - memory_.base());
  const auto rank = static_cast<int>(offset / DeviceMemory::kBlockSharedBytes);
  if (offset >= DeviceMemory::kSharedBytes || rank >= static_cast<int>(blocks_.size()) || rank == this->rank()) return;
  const auto describe = [&](const char* what) {
    return fmt::format("touches shared memory of block {} {}", block_name(coordinates(rank)), what);
  };
  const Thread& thread = running();
  if (thread.cluster_arrivals == 0)
    fail([&] { return describe("before it has met its threads at the cluster's barrier: it may not run yet"); });
  if (thread.cluster_arrivals != thread.cluster_waits)
    fail([&] { return describe("between its arrival at the cluster's barrier and its wait there"); });
  if (blocks_[static_cast<std::size_t>(rank)].live == 0) fail([&] { return describe("which has ended"); });
}

}  // namespace sparsmith
