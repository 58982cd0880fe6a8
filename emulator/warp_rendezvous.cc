// Shuffles and warp barriers of ThreadBlock: lanes meet by mask.
#include <fmt/format.h>

#include <algorithm>

#include "base/half.h"
#include "emulator/thread_block.h"

namespace sparsmith {

// Two lanes that name each other in their masks have to agree on mask and operation.
void ThreadBlock::check_mask(const Warp& warp, Wait wait, std::uint32_t mask, int line) {
  const std::uint32_t self = 1U << current_ % kWarp;
  if ((mask & self) == 0) {
    fail([&] { return fmt::format("lane {} is not in its own mask {:#010x}", current_ % kWarp, mask); }, line);
  }
  const std::uint32_t gone = mask & warp.gone;
  if (wait == Wait::kShuffle && gone != 0) {
    fail(
        [&] {
          return fmt::format("shuffle with mask {:#010x}, whose lanes {:#010x} returned or do not exist", mask, gone);
        },
        line);
  }
  for (std::size_t i = 0; i < warp.meeting_count; ++i) {
    const Meeting& other = warp.meetings[i];
    if ((other.mask & self) == 0 || (other.arrived & mask) == 0) continue;
    if (other.mask != mask || other.wait != wait) {
      fail(
          [&] {
            return fmt::format("divergence within a warp: this lane comes with mask {:#010x}, while {}", mask,
                               describe_waiting());
          },
          line);
    }
  }
}

bool ThreadBlock::is_complete(const Warp& warp, const Meeting& meeting) {
  return ((meeting.arrived | warp.gone) & meeting.mask) == meeting.mask;
}

ThreadBlock::Meeting* ThreadBlock::arrive_at_warp(Wait wait, std::uint32_t mask, int line) {
  Warp& warp = warps_[static_cast<std::size_t>(current_ / kWarp)];
  check_mask(warp, wait, mask, line);
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.wait = wait;
  thread.mask = mask;
  thread.line = line;
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
  Warp& all = warps_[static_cast<std::size_t>(warp)];
  meeting = all.meetings[--all.meeting_count];
}

void ThreadBlock::warp_barrier(std::uint32_t mask, int line) {
  if (Meeting* meeting = arrive_at_warp(Wait::kWarpBarrier, mask, line)) {
    checker_.warp_met(current_ / kWarp, meeting->arrived);
    release_meeting(current_ / kWarp, *meeting);
  }
  wait_for_turn();
}

void ThreadBlock::complete_shuffle(int warp, std::uint32_t mask) {
  Warp& lanes = warps_[static_cast<std::size_t>(warp)];
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
      case ShuffleKind::kDown: source = lane + lanes.arguments[i]; break;
      case ShuffleKind::kIndex: source = lanes.arguments[i] & (kWarp - 1); break;
    }
    if (source < 0 || source >= kWarp) source = lane;
    if ((mask >> source & 1U) == 0) {
      const int reader = warp * kWarp + lane;
      fail(
          [&] {
            return fmt::format("shuffle: lane {} reads from lane {}, which is not in the mask {:#010x}", lane, source,
                               mask);
          },
          threads_[static_cast<std::size_t>(reader)].line);
    }
    lanes.values[i] = brought[static_cast<std::size_t>(source)];
  }
  if (kind == ShuffleKind::kMatrices) add_matrix_product(brought);
  if (kind == ShuffleKind::kSparseMatrices) add_sparse_product(brought);
  if (kind == ShuffleKind::kStartProduct) start_product(warp, brought);
  if (kind == ShuffleKind::kAwaitProducts)
    complete_products(warp, static_cast<std::size_t>(lanes.arguments[static_cast<std::size_t>(current_ % kWarp)]));
}

namespace {

// Bits in fp16 or bfloat16.
template <std::size_t kCount>
std::array<float, kCount> floats_of(const std::array<std::uint16_t, kCount>& bits, bool bfloat16) {
  std::array<float, kCount> values;
  if (bfloat16) {
    for (std::size_t i = 0; i < kCount; ++i) values[i] = float_from_bf16(bits[i]);
  } else {
    for (std::size_t i = 0; i < kCount; ++i) values[i] = float_from_fp16(bits[i]);
  }
  return values;
}

std::uint16_t half_of(std::uint32_t word, std::size_t half) { return static_cast<std::uint16_t>(word >> (16 * half)); }

}  // namespace

// d += a b as mma.m16n8k16 lays it out: lane 4 g + t holds of a the rows g, g + 8 and of b and d what the twin says.
// Products are exact, sums are fp32 in the order of k; the hardware adds in an order of its own.
void ThreadBlock::add_matrix_product(const std::array<std::uint64_t, kWarp>& fragments) {
  constexpr std::size_t kRows = 16;
  constexpr std::size_t kColumns = 8;
  constexpr std::size_t kDepth = 16;
  const auto part = [&](std::size_t lane) { return reinterpret_cast<const MatrixFragments*>(fragments[lane]); };
  const bool bfloat16 = part(0)->bfloat16;
  std::array<std::uint16_t, kRows * kDepth> a_bits;
  std::array<std::uint16_t, kDepth * kColumns> b_bits;
  std::array<std::array<float, kColumns>, kRows> sums;
  const auto sum_of = [&](std::size_t lane, std::size_t i) -> float& {
    return sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  };
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    const MatrixFragments& own = *part(lane);
    if (own.bfloat16 != bfloat16) fail([&] { return "products of different types meet: " + describe_waiting(); });
    const std::size_t group = lane / 4;
    const std::size_t pair = lane % 4 * 2;
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 4; ++i)
        a_bits[(group + i % 2 * 8) * kDepth + pair + i / 2 * 8 + h] = half_of(own.a[i], h);
      for (std::size_t i = 0; i < 2; ++i) b_bits[(pair + i * 8 + h) * kColumns + group] = half_of(own.b[i], h);
    }
    for (std::size_t i = 0; i < 4; ++i) sum_of(lane, i) = own.d[i];
  }
  const auto a = floats_of(a_bits, bfloat16);
  const auto b = floats_of(b_bits, bfloat16);
  for (std::size_t row = 0; row < kRows; ++row) {
    std::array<float, kColumns> of_row = sums[row];
    for (std::size_t k = 0; k < kDepth; ++k) {
      for (std::size_t column = 0; column < kColumns; ++column)
        of_row[column] += a[row * kDepth + k] * b[k * kColumns + column];
    }
    sums[row] = of_row;
  }
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) part(lane)->d[i] = sum_of(lane, i);
  }
}

void ThreadBlock::multiply_matrices(const MatrixFragments& fragments, int line) {
  shuffle(ShuffleKind::kMatrices, reinterpret_cast<std::uint64_t>(&fragments), 0, ~std::uint32_t{0}, line);
}

std::uint64_t ThreadBlock::shuffle(ShuffleKind kind, std::uint64_t value, int argument, std::uint32_t mask, int line) {
  Warp& warp = warps_[static_cast<std::size_t>(current_ / kWarp)];
  const auto lane = static_cast<std::size_t>(current_ % kWarp);
  warp.shuffles[lane] = kind;
  warp.values[lane] = value;
  warp.arguments[lane] = argument;
  if (Meeting* meeting = arrive_at_warp(Wait::kShuffle, mask, line)) {
    complete_shuffle(current_ / kWarp, mask);
    release_meeting(current_ / kWarp, *meeting);
  }
  wait_for_turn();
  return warp.values[lane];
}

// Those who wait for a lane that will not come: a barrier goes on without it, a shuffle cannot.
void ThreadBlock::on_lane_exit(int thread) {
  Warp& warp = warps_[static_cast<std::size_t>(thread / kWarp)];
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
