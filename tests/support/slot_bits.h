// Where bytes and bits of a tile of the slots format are, stated on its own (slots_layout.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "formats/slots.h"
#include "formats/slots_layout.h"

namespace sparsmith::test {

// Where byte `at` of a lane's `lane_bytes`, a multiple of 4, stands in what the 32 lanes load together.
constexpr std::size_t interleaved_at(int lane, int at, int lane_bytes) {
  int begin = 0;  // of the piece
  int piece = 16;
  while (true) {
    while (piece > lane_bytes - begin) piece /= 2;
    if (at < begin + piece) return static_cast<std::size_t>(begin * slots::kLanes + lane * piece + at - begin);
    begin += piece;
  }
}

// Some bits of a distance: `count` of them from bit `of_step` on are those of a byte from bit `of_byte` on, in the
// word of a lane's columns that is named. Pieces that are not needed have no bits.
struct Piece {
  int word = 0;
  int of_byte = 0;
  int count = 0;
  int of_step = 0;
};
using Pieces = std::array<Piece, 3>;

// Where the distances of four neighbours are.
inline Pieces pieces_of(SlotColumns columns, int group) {
  if (columns == SlotColumns::kDelta4) return {{{group / 2, 4 * (group % 2), 4, 0}}};
  if (columns == SlotColumns::kDelta6) {
    if (group < 3) return {{{group, 0, 6, 0}}};
    return {{{0, 6, 2, 4}, {1, 6, 2, 2}, {2, 6, 2, 0}}};
  }
  if (group < 6) return {{{group / 2, 3 * (group % 2), 3, 0}}};
  return {{{group == 6 ? 0 : 2, 6, 2, 0}, {1, group, 1, 2}}};
}

// What is stored is the distance less this: 0 for the first of a tile, which has none.
inline std::uint32_t least_step(SlotColumns columns, int e) { return columns == SlotColumns::kDelta3 && e > 0 ? 1 : 0; }

// Of columns that pad long steps, the distance of entry `e` of a lane. `columns`: those of a tile.
inline std::uint32_t read_step(SlotColumns kind, const std::byte* columns, int lane, int e, int lane_bytes) {
  std::uint32_t step = least_step(kind, e);
  for (const Piece& piece : pieces_of(kind, e / 4)) {
    if (piece.count == 0) break;
    const auto byte = static_cast<std::uint32_t>(columns[interleaved_at(lane, 4 * piece.word + e % 4, lane_bytes)]);
    step += (byte >> piece.of_byte & ((1U << piece.count) - 1)) << piece.of_step;
  }
  return step;
}

// The same of zero bits, written.
inline void write_step(SlotColumns kind, std::byte* columns, int lane, int e, int lane_bytes, std::uint32_t step) {
  const std::uint32_t stored = step - least_step(kind, e);
  for (const Piece& piece : pieces_of(kind, e / 4)) {
    if (piece.count == 0) break;
    const std::uint32_t bits = stored >> piece.of_step & ((1U << piece.count) - 1);
    columns[interleaved_at(lane, 4 * piece.word + e % 4, lane_bytes)] |= static_cast<std::byte>(bits << piece.of_byte);
  }
}

}  // namespace sparsmith::test
