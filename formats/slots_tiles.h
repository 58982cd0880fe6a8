// The bytes of a part in the slots format: the lane and step of each nonzero, and the writing of tiles.
//
// The format leaves open the order of some nonzeros and of a row's tiles. It is chosen so that the 32 gathers of a step
// meet different banks of shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "formats/slots.h"
#include "formats/slots_layout.h"
#include "matrix/csr_matrix.h"

namespace sparsmith {

// Sizes of a packing's tiles, in bytes (see slots_layout.h).
struct SlotTileSize {
  int values = 0;   // of a lane
  int columns = 0;  // of a lane, without the base
  int base = 0;     // of a lane: 2 or 0

  SlotTileSize(const SlotsPacking& packing, DataType type);
  int tile() const { return slots::kLanes * (values + columns + base); }
};

// Calls copy(at, in_tile, size) for the pieces of a lane's `lane_bytes`, a multiple of 4. The lane's bytes from `at` on
// stand at `in_tile` of the bytes that the 32 lanes load together.
template <class Copy>
[[gnu::always_inline]] inline void each_piece(int lane, int lane_bytes, const Copy& copy) {
  const auto piece = [&](int at, auto size) { copy(at, at * slots::kLanes + lane * static_cast<int>(size), size); };
  int at = 0;
  for (; lane_bytes - at >= 16; at += 16) piece(at, std::integral_constant<std::size_t, 16>());
  if (lane_bytes - at >= 8) piece(at, std::integral_constant<std::size_t, 8>());
  if ((lane_bytes & 4) != 0) piece(lane_bytes - 4, std::integral_constant<std::size_t, 4>());
}

// The end of the tile that begins at nonzero `begin` of a row. The tile takes as many nonzeros as fit.
std::int64_t tile_end(const SlotsPacking& packing, std::span<const std::uint32_t> columns, std::int64_t begin);

// A row of a part: its nonzeros and the number of its slots.
struct SlotRow {
  std::int64_t first = 0;  // in the matrix's arrays
  std::int64_t length = 0;
  std::int64_t slots = 0;
};

// Writes the tiles of a part, with `groups` groups; the slots of the rows stand one after the other. REQUIRES: the
// bytes of `part` are 0.
void write_part(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type, std::span<const SlotRow> rows,
                std::int64_t groups, std::span<std::byte> part);

}  // namespace sparsmith
