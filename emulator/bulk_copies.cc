// Bulk copies of ThreadBlock: a thread starts one, its barrier is awaited.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/thread_block.h"

namespace sparsmith {

void ThreadBlock::make_barrier(const void* barrier) {
  const auto at = reinterpret_cast<std::uint64_t>(barrier);
  if (at % 8 != 0) fail_misaligned(barrier, 8);
  if (at - reinterpret_cast<std::uint64_t>(memory_.base()) >= DeviceMemory::kSharedBytes)
    fail([&] { return "a barrier at " + describe_address(at, 8) + ", not in shared memory"; });
  checker_.access_range(AccessKind::kWrite, barrier, 8);
}

void ThreadBlock::bulk_barrier_init(const void* barrier, int copies) {
  make_barrier(barrier);
  BulkBarrier& made = bulk_barriers_[reinterpret_cast<std::uint64_t>(barrier)] = {};
  made.expected = static_cast<std::size_t>(copies);
}

// Whoever uses a barrier is ordered behind who made it ready, and changes it together with others.
ThreadBlock::BulkBarrier& ThreadBlock::bulk_barrier(const void* barrier) {
  const auto at = reinterpret_cast<std::uint64_t>(barrier);
  const auto found = bulk_barriers_.find(at);
  if (found == bulk_barriers_.end())
    fail([&] { return "uses a barrier of bulk copies that is not ready, at " + describe_address(at, 8); });
  checker_.access_range(AccessKind::kAtomic, barrier, 8);
  return found->second;
}

void ThreadBlock::check_whole_chunks(const std::byte* shared, const std::byte* global, int bytes) {
  const auto size = static_cast<std::uint32_t>(bytes);
  if (((reinterpret_cast<std::uint64_t>(shared) | reinterpret_cast<std::uint64_t>(global) | size) & 15U) != 0 ||
      bytes <= 0 || bytes >= 1 << 20) {
    fail([&] {
      return fmt::format("a bulk copy of {} bytes from {} to {}: not whole, aligned 16 bytes, or too many", bytes,
                         describe_address(global, size), describe_address(shared, size));
    });
  }
}

void ThreadBlock::bulk_copy(std::byte* shared, const std::byte* global, int bytes, const void* barrier) {
  BulkBarrier& state = bulk_barrier(barrier);
  check_whole_chunks(shared, global, bytes);
  if (state.copies.size() == state.expected)
    fail([&] { return "one more bulk copy by a barrier whose last copies nobody has awaited"; });
  begin_copy(shared, global, static_cast<std::uint32_t>(bytes));
  if (state.copies.empty()) state.starts.clear();
  state.copies.push_back({shared, global, bytes, 0, running().line});
  state.starts.push_back({current_, checker_.clock()});
  wake(state.waiting);
}

// As the hardware has it: goes on at once when the phase of that parity is over, so one who waits for the wrong one
// reads what has not landed, or waits for ever.
void ThreadBlock::bulk_wait(const void* barrier, unsigned phase) {
  BulkBarrier& state = bulk_barrier(barrier);
  while ((state.completed & 1U) == (phase & 1U)) {
    if (state.copies.size() == state.expected) {
      ++state.completed;
      for (const PendingCopy& copy : state.copies) land(copy);
      state.copies.clear();
    } else {
      state.waiting.push_back(current_);
      wait_for_turn(Wait::kBulkCopy);
    }
  }
  for (const BulkBarrier::Start& start : state.starts) checker_.acquire(start.thread, start.clock);
}

void ThreadBlock::land(const PendingCopy& copy) {
  const auto offset = static_cast<std::uint64_t>(copy.to - memory_.base());
  const auto bytes = static_cast<std::uint64_t>(copy.bytes) + static_cast<std::uint64_t>(copy.zeros);
  DeviceMemory::set_bits(memory_.addressable(), offset, bytes, true);
  DeviceMemory::set_bits(memory_.written(), offset, bytes, true);
  std::copy_n(copy.from, copy.bytes, copy.to);
  std::fill_n(copy.to + copy.bytes, copy.zeros, std::byte{0});
}

void ThreadBlock::check_bulk_copies_have_landed() {
  for (const auto& [at, barrier] : bulk_barriers_) {
    if (barrier.copies.empty()) continue;
    called_in(barrier.copies[0].line);
    fail([] { return "the block ends before a bulk copy has landed: nobody waited for it"; });
  }
  for (const auto& [at, barrier] : arrival_barriers_) {
    if (barrier.copies.empty()) continue;
    called_in(barrier.copies[0].line);
    fail([] { return "the block ends before a copy has landed: its barrier's phase is not complete"; });
  }
}

}  // namespace sparsmith
