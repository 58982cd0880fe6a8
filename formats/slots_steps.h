// Distances to the column before in the slots format: how long they may be, and where their bits are (slots_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/slots.h"

namespace sparsmith {

// The longest distance that the columns of a tile hold; 0 for whole columns.
int longest_step(SlotColumns columns);

// Whether a longer distance than that has padding in it, of weights of -0, instead of ending the tile.
bool pads_long_steps(SlotColumns columns);

// How much padding stands between neighbours of a tile at this distance.
std::int64_t padding_of(SlotColumns columns, std::uint32_t distance);

// Of columns that pad long steps, the distance of entry `e` of a lane. `columns`: those of a tile.
std::uint32_t read_step(SlotColumns kind, const std::byte* columns, int lane, int e, int lane_bytes);
// The same of zero bytes, written.
void write_step(SlotColumns kind, std::byte* columns, int lane, int e, int lane_bytes, std::uint32_t step);

}  // namespace sparsmith
