// A tile of the bitmap format as it is packed and unpacked (bitmap_layout.h): where its elements and values are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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

  std::int64_t begin(std::int64_t row_tile, std::int64_t strip) const { return (row_tile * count + strip) * units; }
};

// How many strips of each row tile have the same room, and how much: the largest of them sets it, so that fewer may
// have to do. `sizes`: of the `strips` strips of each of the row tiles, in units.
FirstStrips choose_first_strips(const std::vector<std::uint32_t>& sizes, std::int64_t row_tiles, std::int64_t strips);

// What holds the header and so many values.
inline std::uint32_t units_of(int header_bytes, std::uint32_t values) {
  return (static_cast<std::uint32_t>(header_bytes) + 2 * values + kUnitBytes - 1) / kUnitBytes;
}

// Where the values of each lane begin: counted by run, then by lane. With S = 2 in runs of 4 bits and 1 in runs of 8,
// byte i of of_lane[s] belongs to run S i + s, as it is stored.
struct TileStarts {
  static constexpr std::size_t kMaxRuns = 8;
  std::array<TileWords, 2> of_lane;            // in the run
  std::array<std::uint16_t, kMaxRuns> of_run;  // in the tile
  std::uint16_t values = 0;

  std::size_t first(std::size_t run, std::size_t run_bits, std::size_t lane) const {
    const std::size_t part = run_bits == 8 ? 0 : run % 2;
    const std::size_t byte = run_bits == 8 ? run : run / 2;
    return of_run[run] + (of_lane[part][lane] >> (8 * byte) & 0xFFU);
  }
};

TileStarts starts_of(const TileWords& words, std::size_t run_bits);

// Where a value stands among those of its tile.
std::size_t value_index(const TileWords& words, const TileStarts& starts, std::size_t run_bits, Place place);

}  // namespace sparsmith::bitmap
