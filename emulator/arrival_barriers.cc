// Barriers in shared memory of ThreadBlock at which some threads arrive and others wait.
#include <fmt/format.h>

#include <utility>

#include "emulator/thread_block.h"

namespace sparsmith {

void ThreadBlock::arrival_barrier_init(const void* barrier, int arrivals) {
  const auto at = reinterpret_cast<std::uint64_t>(barrier);
  if (arrivals < 1) fail([] { return "a barrier that no arrival completes"; });
  if (arrival_barriers_.contains(at))
    fail([&] { return "makes a barrier ready that is in use, at " + describe_address(at, 8); });
  make_barrier(barrier);
  checker_.arrivals_follow();
  arrival_barriers_[at].expected = arrivals;
}

void ThreadBlock::arrival_barrier_end(const void* barrier) {
  if (!arrival_barrier(barrier).waiting.empty()) fail([] { return "ends a barrier at which threads wait"; });
  checker_.access_range(AccessKind::kWrite, barrier, 8);
  arrival_barriers_.erase(reinterpret_cast<std::uint64_t>(barrier));
}

// Whoever uses a barrier is ordered behind who made it ready, and changes it together with others.
ThreadBlock::ArrivalBarrier& ThreadBlock::arrival_barrier(const void* barrier) {
  const auto at = reinterpret_cast<std::uint64_t>(barrier);
  const auto found = arrival_barriers_.find(at);
  if (found == arrival_barriers_.end())
    fail([&] { return "uses a barrier of arrivals that is not ready, at " + describe_address(at, 8); });
  checker_.access_range(AccessKind::kAtomic, barrier, 8);
  return found->second;
}

void ThreadBlock::arrive(const void* barrier) {
  ArrivalBarrier& state = arrival_barrier(barrier);
  checker_.release(state.arriving);
  if (++state.arrived < state.expected) return;
  state.arrived = 0;
  ++state.completed;
  state.complete = std::exchange(state.arriving, {});
  wake(state.waiting);
}

// As the hardware has it: goes on at once when the phase of that parity is the one that was over last.
void ThreadBlock::await_arrivals(const void* barrier, unsigned parity) {
  ArrivalBarrier& state = arrival_barrier(barrier);
  while ((state.completed & 1U) == (parity & 1U)) {
    state.waiting.push_back(current_);
    wait_for_turn(Wait::kArrivals);
  }
  checker_.acquire(state.complete);
}

}  // namespace sparsmith
