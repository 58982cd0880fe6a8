#include "formats/bitmap_tiles.h"

#include <algorithm>
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

FirstStrips choose_first_strips(const std::vector<std::uint32_t>& sizes, std::int64_t row_tiles, std::int64_t strips) {
  const std::int64_t most = row_tiles * kMaxFirstPadding / kUnitBytes;
  for (std::int64_t count = std::min<std::int64_t>(strips, kFirstStrips); count > 0; count /= 2) {
    std::int64_t room = 0;
    std::int64_t used = 0;
    for (std::int64_t row_tile = 0; row_tile < row_tiles; ++row_tile) {
      for (std::int64_t strip = 0; strip < count; ++strip) {
        const std::int64_t size = sizes[static_cast<std::size_t>(row_tile * strips + strip)];
        room = std::max(room, size);
        used += size;
      }
    }
    if (row_tiles * count * room - used <= most) return {static_cast<int>(count), static_cast<int>(room)};
  }
  return {};
}

TileStarts starts_of(const TileWords& words, std::size_t run_bits) {
  TileStarts starts;
  const std::size_t parts = run_bits == 8 ? 1 : 2;
  const auto count_runs = [&](std::uint32_t word, std::size_t part) {  // a byte each
    word -= word >> 1 & 0x55555555U;
    word = (word & 0x33333333U) + (word >> 2 & 0x33333333U);
    return (parts == 2 ? word >> (4 * part) : word + (word >> 4)) & 0x0F0F0F0FU;
  };
  for (std::size_t part = 0; part < parts; ++part) {
    std::uint32_t sums = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      starts.of_lane[part][lane] = sums;
      sums += count_runs(words[lane], part);  // what the last lane adds may not fit, and is not used
    }
  }
  for (std::size_t run = 0; run < 32 / run_bits; ++run) {
    starts.of_run[run] = 0;
    const std::uint32_t last =
        count_runs(words[kLanes - 1], parts == 2 ? run % 2 : 0) >> (8 * (parts == 2 ? run / 2 : run)) & 0xFFU;
    const std::size_t values = starts.first(run, run_bits, kLanes - 1) + last;
    starts.of_run[run] = starts.values;
    starts.values = static_cast<std::uint16_t>(starts.values + values);
  }
  return starts;
}

std::size_t value_index(const TileWords& words, const TileStarts& starts, std::size_t run_bits, Place place) {
  const std::size_t run = place.bit / run_bits;
  const std::uint32_t before = (words[place.lane] & ((1U << place.bit) - 1)) >> (run_bits * run);
  return starts.first(run, run_bits, place.lane) + static_cast<std::size_t>(std::popcount(before));
}

}  // namespace sparsmith::bitmap
