// A tile of the bitmap format as it is packed and unpacked (bitmap_layout.h): where its elements and values are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "formats/bitmap_layout.h"

namespace sparsmith::bitmap {

using TileWords = std::array<std::uint32_t, kLanes>;

// The lane and the bit that hold an element of a tile.
struct Place {
  std::uint8_t lane;
  std::uint8_t bit;
};
using Places = std::array<std::array<Place, kStripColumns>, kTileRows>;

// By row and column of a tile.
const Places& element_places();

// The strips of each row tile whose place follows from their numbers.
struct FirstStrips {
  int count = 0;
  int units = 0;  // the room of one of them

  std::size_t begin(std::int64_t row_tile, std::int64_t strip) const {
    return static_cast<std::size_t>((row_tile * count + strip) * units);
  }
};

// Where the values of each lane begin: counted by run, then by lane.
struct TileStarts {
  static constexpr std::size_t kMaxRuns = 8;
  std::array<std::array<std::uint16_t, kLanes>, kMaxRuns> of_lane;  // in the run
  std::array<std::uint16_t, kMaxRuns> of_run;                       // in the tile
  std::uint16_t values = 0;
};

TileStarts starts_of(const TileWords& words, std::size_t run_bits);

// Where a value stands among those of its tile.
std::size_t value_index(const TileWords& words, const TileStarts& starts, std::size_t run_bits, Place place);

}  // namespace sparsmith::bitmap
