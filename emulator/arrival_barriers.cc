// Barriers in shared memory of ThreadBlock at which some threads arrive and others wait.
#include <fmt/format.h>

#include <utility>

#include "emulator/thread_block.h"

namespace sparsmith {

void ThreadBlock::arrival_barrier_init(const void* barrier, int arrivals, int line) {
  const auto at = reinterpret_cast<std::uint64_t>(barrier);
  if (at % 8 != 0) fail_misaligned(barrier, 8, line);
  if (at - reinterpret_cast<std::uint64_t>(memory_.base()) >= DeviceMemory::kSharedBytes)
    fail([&] { return "a barrier at " + describe_address(at, 8) + ", not in shared memory"; }, line);
  if (arrivals < 1) fail([] { return "a barrier that no arrival completes"; }, line);
  if (arrival_barriers_.contains(at))
    fail([&] { return "makes a barrier ready that is in use, at " + describe_address(at, 8); }, line);
  checker_.access_range(AccessKind::kWrite, barrier, 8);
  checker_.arrivals_follow();
  arrival_barriers_[at].expected = arrivals;
}

void ThreadBlock::arrival_barrier_end(const void* barrier, int line) {
  if (!arrival_barrier(barrier, line).waiting.empty())
    fail([] { return "ends a barrier at which threads wait"; }, line);
  checker_.access_range(AccessKind::kWrite, barrier, 8);
  arrival_barriers_.erase(reinterpret_cast<std::uint64_t>(barrier));
}

// Whoever uses a barrier is ordered behind who made it ready, and changes it together with others.
ThreadBlock::ArrivalBarrier& ThreadBlock::arrival_barrier(const void* barrier, int line) {
  const auto at = reinterpret_cast<std::uint64_t>(barrier);
  const auto found = arrival_barriers_.find(at);
  if (found == arrival_barriers_.end())
    fail([&] { return "uses a barrier of arrivals that is not ready, at " + describe_address(at, 8); }, line);
  checker_.access_range(AccessKind::kAtomic, barrier, 8);
  return found->second;
}

void ThreadBlock::arrive(const void* barrier, int line) {
  ArrivalBarrier& state = arrival_barrier(barrier, line);
  checker_.release(state.arriving);
  if (++state.arrived < state.expected) return;
  state.arrived = 0;
  ++state.completed;
  state.complete = std::exchange(state.arriving, {});
  for (const int thread : state.waiting) make_ready(thread);
  state.waiting.clear();
}

// As the hardware has it: goes on at once when the phase of that parity is the one that was over last.
void ThreadBlock::await_arrivals(const void* barrier, unsigned parity, int line) {
  ArrivalBarrier& state = arrival_barrier(barrier, line);
  while ((state.completed & 1U) == (parity & 1U)) {
    Thread& thread = threads_[static_cast<std::size_t>(current_)];
    thread.wait = Wait::kArrivals;
    thread.line = line;
    state.waiting.push_back(current_);
    wait_for_turn();
  }
  checker_.acquire(state.complete);
}

}  // namespace sparsmith
