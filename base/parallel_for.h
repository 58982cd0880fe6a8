// Runs a loop on the cores of the machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace sparsmith {

// Calls body(begin, end) for consecutive ranges of at most `grain` that cover [0, count), and returns when all are
// done. Uses `threads` threads; 0: one for each core. `body` must not throw.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body, std::int64_t threads = 0) {
  const std::int64_t ranges = (count + grain - 1) / grain;
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t i = next++; i < ranges; i = next++) body(i * grain, std::min(count, (i + 1) * grain));
  };
  const std::int64_t cores = threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> pool;
  for (std::int64_t i = 1; i < std::min(cores, ranges); ++i) pool.emplace_back(work);
  work();
}

// Calls body(i) for each i in [0, count), in ranges as above.
template <class Body>
void parallel_each(std::int64_t count, const Body& body, std::int64_t grain = 1, std::int64_t threads = 0) {
  const auto range = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  };
  parallel_for(count, grain, range, threads);
}

// A grain for rows of `items` items, each of some nanoseconds: enough rows to be worth a thread, and a multiple of 64.
inline std::int64_t grain_of_rows(std::int64_t items) {
  constexpr std::int64_t kItemsOfARange = 1 << 15;
  return (kItemsOfARange / std::clamp<std::int64_t>(items, 1, kItemsOfARange) + 63) / 64 * 64;
}

}  // namespace sparsmith
