#include "formats/bitmap_tiles.h"

#include <bit>

namespace sparsmith::bitmap {

const Places& element_places() {
  static const Places all = [] {
    Places result{};
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int bit = 0; bit < 32; ++bit) {
        result[static_cast<std::size_t>(element_row(lane, bit))][static_cast<std::size_t>(element_column(lane, bit))] =
            {static_cast<std::uint8_t>(lane), static_cast<std::uint8_t>(bit)};
      }
    }
    return result;
  }();
  return all;
}

TileStarts starts_of(const TileWords& words, std::size_t run_bits) {
  TileStarts starts;
  for (std::size_t run = 0; run < 32 / run_bits; ++run) {
    std::uint16_t count = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      starts.of_lane[run][lane] = count;
      count = static_cast<std::uint16_t>(
          count + std::popcount(words[lane] >> (run_bits * run) & ((std::uint32_t{1} << run_bits) - 1)));
    }
    starts.of_run[run] = starts.values;
    starts.values = static_cast<std::uint16_t>(starts.values + count);
  }
  return starts;
}

std::size_t value_index(const TileWords& words, const TileStarts& starts, std::size_t run_bits, Place place) {
  const std::size_t run = place.bit / run_bits;
  const std::uint32_t before = (words[place.lane] & ((1U << place.bit) - 1)) >> (run_bits * run);
  return static_cast<std::size_t>(starts.of_run[run]) + starts.of_lane[run][place.lane] +
         static_cast<std::size_t>(std::popcount(before));
}

}  // namespace sparsmith::bitmap
