// Shuffles and warp barriers of ThreadBlock: lanes meet by mask.
#include <fmt/format.h>

#include "emulator/thread_block.h"

namespace sparsmith {

// Lanes of the warp that returned or, in a block's last warp, never were.
std::uint32_t ThreadBlock::exited_lanes(int warp) const {
  std::uint32_t exited = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    const int thread = warp * kWarp + lane;
    const bool gone = thread >= launch_->threads || threads_[static_cast<std::size_t>(thread)].wait == Wait::kExited;
    exited |= static_cast<std::uint32_t>(gone) << lane;
  }
  return exited;
}

void ThreadBlock::check_lanes(Wait wait, std::uint32_t mask, int line) {
  const int warp = current_ / kWarp;
  const std::uint32_t self = 1U << current_ % kWarp;
  if ((mask & self) == 0) {
    fail([&] { return fmt::format("lane {} is not in its own mask {:#010x}", current_ % kWarp, mask); }, line);
  }
  const std::uint32_t gone = mask & exited_lanes(warp);
  if (wait == Wait::kShuffle && gone != 0) {
    fail(
        [&] {
          return fmt::format("shuffle with mask {:#010x}, whose lanes {:#010x} returned or do not exist", mask, gone);
        },
        line);
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    const int other = warp * kWarp + lane;
    if ((mask >> lane & 1U) == 0 || other == current_ || other >= launch_->threads) continue;
    const Thread& thread = threads_[static_cast<std::size_t>(other)];
    if ((thread.wait != Wait::kWarpBarrier && thread.wait != Wait::kShuffle) || (thread.mask & self) == 0) continue;
    if (thread.mask != mask || thread.wait != wait) {
      fail(
          [&] {
            return fmt::format("divergence within a warp: this lane comes with mask {:#010x}, while {}", mask,
                               describe_waiting());
          },
          line);
    }
  }
}

bool ThreadBlock::warp_is_complete(int warp, Wait wait, std::uint32_t mask) const {
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    const int other = warp * kWarp + lane;
    if (other >= launch_->threads) continue;
    const Thread& thread = threads_[static_cast<std::size_t>(other)];
    if (thread.wait == Wait::kExited) continue;
    if (thread.wait != wait || thread.mask != mask) return false;
  }
  return true;
}

bool ThreadBlock::arrive_at_warp(Wait wait, std::uint32_t mask, int line) {
  check_lanes(wait, mask, line);
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.wait = wait;
  thread.mask = mask;
  thread.line = line;
  return warp_is_complete(current_ / kWarp, wait, mask);
}

void ThreadBlock::release_warp(int warp, std::uint32_t mask) {
  for (int lane = 0; lane < kWarp; ++lane) {
    const int thread = warp * kWarp + lane;
    if ((mask >> lane & 1U) == 0 || thread >= launch_->threads) continue;
    if (threads_[static_cast<std::size_t>(thread)].wait != Wait::kExited) make_ready(thread);
  }
}

void ThreadBlock::warp_barrier(std::uint32_t mask, int line) {
  if (arrive_at_warp(Wait::kWarpBarrier, mask, line)) {
    checker_.warp_met(current_ / kWarp, mask);
    release_warp(current_ / kWarp, mask);
  }
  wait_for_turn();
}

void ThreadBlock::complete_shuffle(int warp, std::uint32_t mask) {
  std::array<std::uint64_t, kWarp> values{};
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1U) != 0) values[lane] = threads_[static_cast<std::size_t>(warp * kWarp + lane)].value;
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    Thread& thread = threads_[static_cast<std::size_t>(warp * kWarp + lane)];
    int source = lane;
    switch (thread.shuffle) {
      case ShuffleKind::kXor: source = lane ^ thread.argument; break;
      case ShuffleKind::kDown: source = lane + thread.argument; break;
      case ShuffleKind::kIndex: source = thread.argument & (kWarp - 1); break;
    }
    if (source < 0 || source >= kWarp) source = lane;
    if ((mask >> source & 1U) == 0) {
      fail(
          [&] {
            return fmt::format("shuffle: lane {} reads from lane {}, which is not in the mask {:#010x}", lane, source,
                               mask);
          },
          thread.line);
    }
    thread.value = values[static_cast<std::size_t>(source)];
  }
}

std::uint64_t ThreadBlock::shuffle(ShuffleKind kind, std::uint64_t value, int argument, std::uint32_t mask, int line) {
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.shuffle = kind;
  thread.value = value;
  thread.argument = argument;
  if (arrive_at_warp(Wait::kShuffle, mask, line)) {
    complete_shuffle(current_ / kWarp, mask);
    release_warp(current_ / kWarp, mask);
  }
  wait_for_turn();
  return thread.value;
}

// Those who wait for a lane that will not come: a barrier goes on without it, a shuffle cannot.
void ThreadBlock::on_lane_exit(int exited) {
  const int warp = exited / kWarp;
  for (int lane = 0; lane < kWarp; ++lane) {
    const int other = warp * kWarp + lane;
    if (other >= launch_->threads) break;
    const Thread& thread = threads_[static_cast<std::size_t>(other)];
    const bool waits_at_warp = thread.wait == Wait::kWarpBarrier || thread.wait == Wait::kShuffle;
    if (!waits_at_warp || (thread.mask >> exited % kWarp & 1U) == 0) continue;
    if (thread.wait == Wait::kShuffle) {
      fail([&] { return fmt::format("lane {} returned, while {}", exited % kWarp, describe_waiting()); });
    }
    if (warp_is_complete(warp, Wait::kWarpBarrier, thread.mask)) {
      checker_.warp_met(warp, thread.mask);
      release_warp(warp, thread.mask);
    }
  }
}

}  // namespace sparsmith
