// Distances to the previous column in the slots format: their longest values, and the places of their bits
// (slots_layout.h).
#pragma once

#include <cstdint>

#include "formats/slots.h"
#include "formats/slots_layout.h"

namespace sparsmith {

constexpr int longest_step(SlotColumns columns) { return slot_columns_kind(columns).longest_step; }
// Whether a longer distance has padding in it, with weights of -0. Otherwise it ends the tile.
constexpr bool pads_long_steps(SlotColumns columns) { return columns >= SlotColumns::kDelta4; }

// A distance that is not the first of a tile is stored less this number.
constexpr std::uint32_t least_step(SlotColumns columns) { return columns == SlotColumns::kDelta3 ? 1 : 0; }

// The number of paddings between neighbours of a tile at this distance.
constexpr std::int64_t padding_of(SlotColumns columns, std::uint32_t distance) {
  if (!pads_long_steps(columns)) return 0;
  const auto longest = static_cast<std::uint32_t>(longest_step(columns));
  return distance <= longest ? 0 : (distance - 1) / longest;
}

// The stored distances of four neighbours of a lane's tile, from neighbour 4 `group` on, one byte each. With columns of
// 3 bits, a stored distance is the distance less 1. `words`: the lane's words, in order.
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

// Writes stored distances, in the form that four_steps() returns. REQUIRES: their bits in `words` are 0.
inline void put_four_steps(SlotColumns columns, std::uint32_t* words, int group, std::uint32_t four) {
  if (columns == SlotColumns::kDelta4) {
    words[group / 2] |= four << (4 * (group % 2));
  } else if (columns == SlotColumns::kDelta6) {
    if (group < 3) words[group] |= four;
    for (int w = 0; group == 3 && w < 3; ++w) words[w] |= four << (2 + 2 * w) & 0xC0C0C0C0U;
  } else if (group < 6) {
    words[group / 2] |= four << (3 * (group % 2));
  } else {
    words[group == 6 ? 0 : 2] |= four << 6 & 0xC0C0C0C0U;
    words[1] |= (four >> 2 & 0x01010101U) << group;
  }
}

}  // namespace sparsmith
