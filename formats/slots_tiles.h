// The bytes of a part in the slots format: which nonzero stands in which lane and step, and how a tile is written.
//
// Where the format leaves the order of nonzeros open, or that of a row's tiles (slots_tile_order.h), it is chosen so
// that the 32 gathers of a step meet different banks of shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/slots.h"
#include "formats/slots_layout.h"

namespace sparsmith {

// Sizes of a packing's tiles, in bytes (see slots_layout.h).
struct SlotTileSize {
  int values = 0;   // of a lane
  int columns = 0;  // of a lane, without base
  int base = 0;     // of a lane: 2 or 0

  SlotTileSize(const SlotsPacking& packing, DataType type);
  int tile() const { return slots::kLanes * (values + columns + base); }
};

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

// The end of the tile that begins at nonzero `begin` of a row: as many as fit.
std::int64_t tile_end(const SlotsPacking& packing, std::span<const std::uint32_t> columns, std::int64_t begin);

// A row of a part: its nonzeros and how many slots it has.
struct SlotRow {
  std::int64_t first = 0;  // in the matrix's arrays
  std::int64_t length = 0;
  std::int64_t slots = 0;
};

// Writes the tiles of a part, which is all zero bytes: `groups` groups, the rows' slots one after the other.
void write_part(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type, std::span<const SlotRow> rows,
                std::int64_t groups, std::span<std::byte> part);

}  // namespace sparsmith
