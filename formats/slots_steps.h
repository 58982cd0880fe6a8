// Distances to the column before in the slots format: how long they may be, and where their bits are (slots_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/slots.h"
#include "formats/slots_layout.h"

namespace sparsmith {

// The longest distance that the columns of a tile hold; 0 for whole columns.
constexpr int longest_step(SlotColumns columns) {
  switch (columns) {
    case SlotColumns::kUint16:
    case SlotColumns::kUint32: return 0;
    case SlotColumns::kDelta8:
    case SlotColumns::kOffset8: return slots::kMaxStep;
    case SlotColumns::kDelta4: return slots::kMaxStep4;
    case SlotColumns::kDelta6: return slots::kMaxStep6;
    case SlotColumns::kDelta3: return slots::kMaxStep3;
  }
  return 0;
}

// Whether a longer distance than that has padding in it, of weights of -0, instead of ending the tile.
constexpr bool pads_long_steps(SlotColumns columns) {
  return columns == SlotColumns::kDelta3 || columns == SlotColumns::kDelta4 || columns == SlotColumns::kDelta6;
}

// How much padding stands between neighbours of a tile at this distance.
constexpr std::int64_t padding_of(SlotColumns columns, std::uint32_t distance) {
  const auto longest = static_cast<std::uint32_t>(longest_step(columns));
  return distance <= longest || !pads_long_steps(columns) ? 0 : (distance - 1) / longest;
}

// What the columns of a lane's tile store for four neighbours from 4 `group` on, a byte each; of columns of 3 bits that
// is the distance less 1. `words`: the lane's, in order.
inline std::uint32_t four_steps(SlotColumns columns, const std::uint32_t* words, int group) {
  switch (columns) {
    case SlotColumns::kDelta4: return words[group / 2] >> (4 * (group % 2)) & 0x0F0F0F0FU;
    case SlotColumns::kDelta6:
      if (group < 3) return words[group] & 0x3F3F3F3FU;
      return ((words[0] & 0xC0C0C0C0U) | (words[1] >> 2 & 0x30303030U) | (words[2] >> 4 & 0x0C0C0C0CU)) >> 2;
    case SlotColumns::kDelta3:
      if (group < 6) return words[group / 2] >> (3 * (group % 2)) & 0x07070707U;
      return (words[group == 6 ? 0 : 2] >> 6 & 0x03030303U) | (words[1] >> group & 0x01010101U) << 2;
    default: return words[group];
  }
}

// Of columns that pad long steps, the distance of entry `e` of a lane. `columns`: those of a tile.
std::uint32_t read_step(SlotColumns kind, const std::byte* columns, int lane, int e, int lane_bytes);
// The same of zero bytes, written.
void write_step(SlotColumns kind, std::byte* columns, int lane, int e, int lane_bytes, std::uint32_t step);

}  // namespace sparsmith
