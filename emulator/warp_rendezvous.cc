// Shuffles and warp barriers of ThreadBlock: lanes meet by mask.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/thread_block.h"

namespace sparsmith {

// Two lanes that name each other in their masks have to agree on mask and operation.
void ThreadBlock::check_mask(const Warp& warp, Wait wait, std::uint32_t mask) {
  const std::uint32_t self = 1U << current_ % kWarp;
  if ((mask & self) == 0) {
    fail([&] { return fmt::format("lane {} is not in its own mask {:#010x}", current_ % kWarp, mask); });
  }
  const std::uint32_t gone = mask & warp.gone;
  if (wait == Wait::kShuffle && gone != 0) {
    fail([&] {
      return fmt::format("shuffle with mask {:#010x}, whose lanes {:#010x} returned or do not exist", mask, gone);
    });
  }
  for (std::size_t i = 0; i < warp.meeting_count; ++i) {
    const Meeting& other = warp.meetings[i];
    if ((other.mask & self) == 0 || (other.arrived & mask) == 0) continue;
    if (other.mask != mask || other.wait != wait) {
      fail([&] {
        return fmt::format("divergence within a warp: this lane comes with mask {:#010x}, while {}", mask,
                           describe_waiting());
      });
    }
  }
}

bool ThreadBlock::is_complete(const Warp& warp, const Meeting& meeting) {
  return ((meeting.arrived | warp.gone) & meeting.mask) == meeting.mask;
}

ThreadBlock::Meeting* ThreadBlock::arrive_at_warp(Wait wait, std::uint32_t mask) {
  Warp& warp = running_warp();
  check_mask(warp, wait, mask);
  Thread& thread = running();
  thread.wait = wait;
  thread.mask = mask;
  Meeting* const end = warp.meetings.data() + warp.meeting_count;
  Meeting* meeting = std::find_if(warp.meetings.data(), end,
                                  [&](const Meeting& other) { return other.wait == wait && other.mask == mask; });
  if (meeting == end) {
    *meeting = {wait, mask, 0};
    ++warp.meeting_count;
  }
  meeting->arrived |= 1U << current_ % kWarp;
  return is_complete(warp, *meeting) ? meeting : nullptr;
}

void ThreadBlock::release_meeting(int warp, Meeting& meeting) {
  for (std::uint32_t lanes = meeting.arrived; lanes != 0; lanes &= lanes - 1) {
    make_ready(warp * kWarp + __builtin_ctz(lanes));
  }
  Warp& all = warp_of(warp);
  meeting = all.meetings[--all.meeting_count];
}

void ThreadBlock::warp_barrier(std::uint32_t mask) {
  if (Meeting* meeting = arrive_at_warp(Wait::kWarpBarrier, mask)) {
    checker_.warp_met(current_ / kWarp, meeting->arrived);
    release_meeting(current_ / kWarp, *meeting);
  }
  wait_for_turn();
}

void ThreadBlock::complete_shuffle(int warp, std::uint32_t mask) {
  Warp& lanes = warp_of(warp);
  const std::array<std::uint64_t, kWarp> brought = lanes.values;
  const ShuffleKind kind = lanes.shuffles[static_cast<std::size_t>(current_ % kWarp)];
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    const auto i = static_cast<std::size_t>(lane);
    if (lanes.shuffles[i] != kind) fail([&] { return "different kinds of shuffle meet: " + describe_waiting(); });
    int source = lane;
    switch (kind) {
      case ShuffleKind::kMatrices:
      case ShuffleKind::kSparseMatrices:
      case ShuffleKind::kStartProduct:
      case ShuffleKind::kAwaitProducts: continue;
      case ShuffleKind::kAny:
        lanes.values[i] = 0;
        for (std::size_t other = 0; other < kWarp; ++other)
          if ((mask >> other & 1U) != 0 && brought[other] != 0) lanes.values[i] = 1;
        continue;
      case ShuffleKind::kUp: source = lane - lanes.arguments[i]; break;
      case ShuffleKind::kXor: source = lane ^ lanes.arguments[i]; break;
      case ShuffleKind::kIndex: source = lanes.arguments[i] & (kWarp - 1); break;
    }
    if (source < 0 || source >= kWarp) source = lane;
    if ((mask >> source & 1U) == 0) {
      called_in(thread_of(warp * kWarp + lane).line);
      fail([&] {
        return fmt::format("shuffle: lane {} reads from lane {}, which is not in the mask {:#010x}", lane, source,
                           mask);
      });
    }
    lanes.values[i] = brought[static_cast<std::size_t>(source)];
  }
  if (kind == ShuffleKind::kMatrices) add_matrix_product(brought);
  if (kind == ShuffleKind::kSparseMatrices) add_sparse_product(brought);
  if (kind == ShuffleKind::kStartProduct) start_product(warp, brought);
  if (kind == ShuffleKind::kAwaitProducts)
    complete_products(warp, static_cast<std::size_t>(lanes.arguments[static_cast<std::size_t>(current_ % kWarp)]));
}

std::uint64_t ThreadBlock::shuffle(ShuffleKind kind, std::uint64_t value, int argument, std::uint32_t mask) {
  Warp& warp = running_warp();
  const auto lane = static_cast<std::size_t>(current_ % kWarp);
  warp.shuffles[lane] = kind;
  warp.values[lane] = value;
  warp.arguments[lane] = argument;
  if (Meeting* meeting = arrive_at_warp(Wait::kShuffle, mask)) {
    complete_shuffle(current_ / kWarp, mask);
    release_meeting(current_ / kWarp, *meeting);
  }
  wait_for_turn();
  return warp.values[lane];
}

// Those who wait for a lane that will not come: a barrier goes on without it, a shuffle cannot.
void ThreadBlock::on_lane_exit(int thread) {
  Warp& warp = warp_of(thread / kWarp);
  const std::uint32_t lane = 1U << thread % kWarp;
  warp.gone |= lane;
  for (std::size_t i = warp.meeting_count; i-- > 0;) {
    Meeting& meeting = warp.meetings[i];
    if ((meeting.mask & lane) == 0) continue;
    if (meeting.wait == Wait::kShuffle) {
      fail([&] { return fmt::format("lane {} returned, while {}", thread % kWarp, describe_waiting()); });
    }
    if (is_complete(warp, meeting)) {
      checker_.warp_met(thread / kWarp, meeting.arrived);
      release_meeting(thread / kWarp, meeting);
    }
  }
}

}  // namespace sparsmith
