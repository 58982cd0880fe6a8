// Barriers in shared memory of ThreadBlock at which some threads arrive and others wait, and the copies that they
// count.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/thread_block.h"
#include "runtime/launch_plan.h"

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
  if (state.arrived == state.expected)
    fail([] { return "arrives once more at a barrier whose phase waits for copies alone"; });
  checker_.release(state.arriving);
  ++state.arrived;
  complete_phase(state);
}

void ThreadBlock::arrive_in_block(const std::byte* barrier, int rank) {
  const std::byte* const there = in_block(barrier, rank);
  check_cluster_access(there, 8);
  arrive(there);
}

void ThreadBlock::arrive_expecting(const void* barrier, int bytes) {
  if (bytes < 1) fail([] { return "expects no bytes"; });
  arrival_barrier(barrier).expected_bytes += bytes;
  arrive(barrier);
}

void ThreadBlock::complete_phase(ArrivalBarrier& barrier) {
  if (barrier.arrived < barrier.expected || barrier.bytes < barrier.expected_bytes) return;
  if (barrier.bytes > barrier.expected_bytes)
    fail([] { return "a barrier's phase ends with more bytes than it expects"; });
  for (const PendingCopy& copy : barrier.copies) land(copy);
  barrier.copies.clear();
  barrier.arrived = barrier.bytes = barrier.expected_bytes = 0;
  ++barrier.completed;
  barrier.complete = std::exchange(barrier.arriving, {});
  wake(barrier.waiting);
}

// A box: lines of 4 or 8 chunks of 16 bytes, each at the place that the swizzle of 64 or 128 bytes gives it.
void ThreadBlock::box_copy(std::byte* shared, const TensorMap* map, int element, int line, const std::byte* barrier,
                           unsigned blocks) {
  constexpr int kChunk = 8;  // elements
  if (map->address == 0) fail([] { return "copies a box of a matrix that has no map: is it aligned?"; });
  const int chunks = map->box.elements / kChunk;  // of a line
  const int period = chunks * 16 * 8;
  if ((shared - shared_memory()) % period != 0)
    fail([&] { return fmt::format("copies a box to {}, not a multiple of {}", describe_address(shared, 1), period); });
  for (int rank = 0; blocks >> rank != 0; ++rank) {
    if ((blocks >> rank & 1U) == 0) continue;
    std::byte* const to = in_block(shared, rank);
    const std::byte* const there = in_block(barrier, rank);
    check_cluster_access(there, 8);
    ArrivalBarrier& state = arrival_barrier(there);
    checker_.write_fenced([&] {
      for (int i = 0; i < map->box.lines * chunks; ++i) {
        const int row = i / chunks;
        const std::int64_t first = element + i % chunks * kChunk;
        const bool inside = line + row >= 0 && line + row < map->lines && first >= 0;
        const auto count = static_cast<int>(inside ? std::clamp<std::int64_t>(map->elements - first, 0, kChunk) : 0);
        const auto from = map->address + static_cast<std::uint64_t>((line + row) * map->line_bytes + first * 2);
        state.copies.push_back({to + (row * chunks + ((i % chunks) ^ (row * chunks / 8 % chunks))) * 16,
                                reinterpret_cast<const std::byte*>(from), count * 2, 0, running().line,
                                16 - count * 2});
        const PendingCopy& copy = state.copies.back();
        begin_copy(copy.to, copy.from, static_cast<std::uint32_t>(copy.bytes), static_cast<std::uint32_t>(copy.zeros));
      }
    });
    checker_.release(state.arriving);
    state.bytes += map->box.lines * map->box.elements * 2;
    complete_phase(state);
  }
}

void ThreadBlock::array_copy(std::byte* shared, const std::byte* global, int bytes, const std::byte* barrier) {
  ArrivalBarrier& state = arrival_barrier(barrier);
  check_whole_chunks(shared, global, bytes);
  checker_.write_fenced([&] { begin_copy(shared, global, static_cast<std::uint32_t>(bytes)); });
  state.copies.push_back({shared, global, bytes, 0, running().line});
  checker_.release(state.arriving);
  state.bytes += bytes;
  complete_phase(state);
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
