// From the bitmap format back to rows.
#include <fmt/format.h>

#include <array>
#include <bit>

#include "base/ceil_div.h"
#include "formats/bitmap.h"
#include "formats/bitmap_layout.h"
#include "formats/bitmap_tiles.h"
#include "formats/packed_reader.h"
#include "formats/row_parts.h"

namespace sparsmith {
namespace {

using bitmap::FirstStrips;
using bitmap::kLanes;
using bitmap::kStripColumns;
using bitmap::kTileRows;
using bitmap::kUnitBytes;
using bitmap::TileStarts;
using bitmap::TileWords;

Result<BitmapPacking> packing_named(std::string_view name) {
  for (const int tiles : {1, 2, 4}) {
    for (const int run_bits : {4, 8}) {
      for (const bool stored : {false, true}) {
        const BitmapPacking packing{tiles, run_bits, stored};
        if (packing.name() == name) return packing;
      }
    }
  }
  return invalid_input("a name of no bitmap packing");
}

// What 8 neighbouring bits of a lane's word hold of one of its two rows: the number of each value among those of the
// bits, and its column.
struct RowBits {
  std::uint8_t count = 0;
  std::array<std::uint8_t, 4> values{};
  std::array<std::uint8_t, 4> columns{};
};
constexpr auto kRowBits = [] {
  std::array<std::array<RowBits, 256>, 2> all{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    std::uint8_t value = 0;
    for (unsigned bit = 0; bit < 8; ++bit) {
      if ((bits >> bit & 1U) == 0) continue;
      RowBits& row = all[bit / 2 % 2][bits];
      row.values[row.count] = value++;
      row.columns[row.count++] = static_cast<std::uint8_t>(2 * (bit / 4) + bit % 2);
    }
  }
  return all;
}();

class BitmapReader : public PackedReader {
 public:
  BitmapReader(const PackedView& view, const BitmapPacking& packing, PackedParts& parts)
      : packing_(packing),
        tiles_(static_cast<std::size_t>(packing.tiles)),
        run_bits_(static_cast<std::size_t>(packing.run_bits)),
        row_tiles_(ceil_div(view.rows, std::int64_t{kTileRows} * packing.tiles)),
        strips_(ceil_div(view.cols, kStripColumns)),
        header_(bitmap::header_bytes(packing.tiles, packing.run_bits, packing.stored_offsets)) {
    const int most = bitmap::max_strip_bytes(packing.tiles, packing.run_bits, packing.stored_offsets);
    parts.require(view.value_type != DataType::kFloat32, "values are fp16 or bf16");
    parts.expect_fact("row_tiles", row_tiles_);
    parts.expect_fact("strips", strips_);
    max_strip_bytes_ = parts.fact("max_strip_bytes", 0, most);
    first_.count =
        static_cast<int>(parts.fact("first_strips", 0, std::min<std::int64_t>(strips_, bitmap::kFirstStrips)));
    first_.units = static_cast<int>(parts.fact("first_units", 0, most / kUnitBytes));
    bytes_ = parts.array<std::byte>("strips", DataType::kUint8);
    offsets_ = parts.array<std::uint32_t>("strip_offsets", DataType::kUint32, row_tiles_ * strips_ + 1);
    row_parts_ = parts.array<std::uint32_t>("row_parts", DataType::kUint32, row_tiles_ * packing.tiles);
  }

  Status check_bounds(int threads) override {
    SPARSMITH_RETURN_IF_ERROR(check_row_parts(row_parts_));
    const std::int64_t strips = row_tiles_ * strips_;
    if (offsets_[0] != row_tiles_ * first_.count * first_.units ||
        std::int64_t{offsets_[strips]} * kUnitBytes != bytes_.size())
      return invalid_input(fmt::format("strip_offsets do not share out the {} bytes of strips", bytes_.size()));
    sizes_.assign(static_cast<std::size_t>(strips), 0);
    SPARSMITH_RETURN_IF_ERROR(check_ranges(strips, 256, threads, [&](std::int64_t begin, std::int64_t end) -> Status {
      for (std::int64_t strip = begin; strip < end; ++strip)
        if (!check_strip(strip))
          return invalid_input(
              fmt::format("strip {} does not lie where its offset says, or counts other values", strip));
      return {};
    }));
    std::uint32_t largest = 0;
    for (const std::uint32_t size : sizes_) largest = std::max(largest, size);
    if (std::int64_t{largest} * kUnitBytes == max_strip_bytes_) return {};
    return invalid_input(fmt::format("a strip has {} bytes, of at most {}", largest * kUnitBytes, max_strip_bytes_));
  }

  std::int64_t units() const override { return row_tiles_; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(static_cast<std::uint32_t>(unit), tiles_ * kTileRows);
    for (std::int64_t s = 0; s < strips_; ++s) {
      const std::int64_t strip = unit * strips_ + s;
      const std::span<const std::byte> bytes = bytes_of(strip);
      const std::byte* values = bytes.data() + header_;
      for (std::size_t tile = 0; tile < tiles_; ++tile)
        values += 2 * read_tile(bytes.data() + tile * sizeof(TileWords), values, tile * kTileRows,
                                static_cast<std::uint32_t>(s * kStripColumns), rows);
      if (!all_zero(bytes.subspan(static_cast<std::size_t>(values - bytes.data()))))
        return invalid_input(fmt::format("strip {}: padding behind its values is not 0", strip));
    }
    return rows.store(rows_of_block(row_parts_, unit, packing_.tiles));
  }

  Status check_whole(const UnpackedRows& rows) const override {
    const FirstStrips first = bitmap::choose_first_strips(sizes_, row_tiles_, strips_);
    if (first.count != first_.count || first.units != first_.units)
      return invalid_input(fmt::format("{} first strips of {} units, where packers have {} of {}", first_.count,
                                       first_.units, first.count, first.units));
    return check_dealt_parts(row_parts_, rows.offsets(), packing_.tiles);
  }

 private:
  // With the room behind it that belongs to it.
  std::span<const std::byte> bytes_of(std::int64_t strip) const {
    const std::int64_t column = strip % strips_;
    const bool is_first = column < first_.count;
    const std::int64_t begin = is_first ? first_.begin(strip / strips_, column) : offsets_[strip];
    const std::int64_t end = is_first ? begin + first_.units : offsets_[strip + 1];
    return bytes_.bytes().subspan(static_cast<std::size_t>(begin * kUnitBytes),
                                  static_cast<std::size_t>((end - begin) * kUnitBytes));
  }

  // Whether a strip's offsets, and those of its values, are what its bits and the strip before ask for.
  bool check_strip(std::int64_t strip) {
    const std::uint32_t first = offsets_[strip];
    const std::uint32_t last = offsets_[strip + 1];
    const bool is_first = strip % strips_ < first_.count;
    const std::int64_t room = is_first ? first_.units : std::int64_t{last} - first;
    if (first > last || last > offsets_[row_tiles_ * strips_] || (is_first && first != last) ||
        room * kUnitBytes < header_)
      return false;
    const std::byte* const bytes = bytes_of(strip).data();
    const std::size_t runs = 32 / run_bits_;
    const std::size_t start_words = packing_.stored_offsets ? runs / 4 : 0;  // a lane's of a tile
    const std::byte* stored = bytes + tiles_ * sizeof(TileWords);
    const Elements<std::uint16_t> firsts({stored + tiles_ * start_words * sizeof(TileWords), tiles_ * runs * 2});
    std::uint32_t values = 0;
    std::uint32_t wrong = 0;
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      TileWords words;
      std::memcpy(words.data(), bytes + tile * sizeof(TileWords), sizeof(TileWords));
      const TileStarts starts = bitmap::starts_of(words, run_bits_);
      const Elements<std::uint32_t> of_lanes(
          {stored + tile * start_words * sizeof(TileWords), start_words * sizeof(TileWords)});
      for (std::size_t s = 0; s < start_words; ++s)
        for (std::size_t lane = 0; lane < kLanes; ++lane)
          wrong |= of_lanes[static_cast<std::int64_t>(lane * start_words + s)] ^ starts.of_lane[s][lane];
      for (std::size_t run = 0; run < runs; ++run)
        wrong |= firsts[static_cast<std::int64_t>(tile * runs + run)] ^ (2 * (values + starts.of_run[run]));
      values += starts.values;
    }
    const std::uint32_t units = bitmap::units_of(header_, values);
    sizes_[static_cast<std::size_t>(strip)] = units;
    return wrong == 0 && (is_first ? units <= room : units == room);
  }

  // Returns the number of values.
  std::size_t read_tile(const std::byte* tile, const std::byte* values, std::size_t first_row,
                        std::uint32_t first_column, UnitRows& rows) const {
    TileWords words;
    std::memcpy(words.data(), tile, sizeof(TileWords));
    const TileStarts starts = bitmap::starts_of(words, run_bits_);
    if (starts.values == 0) return 0;
    for (std::size_t group = 0; group < 8; ++group) {
      std::array<UnitRows::Entry*, 2> to;
      for (std::size_t half = 0; half < 2; ++half)
        to[half] = rows.room(first_row + group + 8 * half, kStripColumns + 4);
      for (std::size_t lane = 4 * group; lane < 4 * group + 4; ++lane)
        if (words[lane] != 0)
          run_bits_ == 8 ? read_lane<8>(words[lane], starts, lane, values, first_column, to)
                         : read_lane<4>(words[lane], starts, lane, values, first_column, to);
      for (std::size_t half = 0; half < 2; ++half) rows.take(first_row + group + 8 * half, to[half]);
    }
    return starts.values;
  }

  template <std::size_t kRunBits>
  void read_lane(std::uint32_t word, const TileStarts& starts, std::size_t lane, const std::byte* values,
                 std::uint32_t first_column, std::array<UnitRows::Entry*, 2>& to) const {
    // A few bits are found faster than those of each run.
    constexpr int kFewBits = 12;
    if (std::popcount(word) <= kFewBits) {
      for (std::uint32_t left = word; left != 0; left &= left - 1) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(left));
        const std::size_t run = bit / kRunBits;
        const std::uint32_t before = word >> (run * kRunBits) & ((1U << bit % kRunBits) - 1);
        const std::size_t value =
            starts.first(run, kRunBits, lane) + kRowBits[0][before].count + kRowBits[1][before].count;
        std::uint16_t bits;
        std::memcpy(&bits, values + 2 * value, sizeof(bits));
        const auto column = first_column + static_cast<std::uint32_t>(16 * (lane % 4) + 2 * (bit / 4) + bit % 2);
        *to[bit / 2 % 2]++ = {column, bits};
      }
      return;
    }
    for (std::size_t run = 0; run < 32 / kRunBits; ++run) {
      const std::uint32_t bits = word >> (run * kRunBits) & ((1U << kRunBits) - 1);
      if (bits == 0) continue;
      const std::byte* const from = values + 2 * starts.first(run, kRunBits, lane);
      const auto column = static_cast<std::uint32_t>(first_column + 16 * (lane % 4) + run * kRunBits / 2);
      for (std::size_t half = 0; half < 2; ++half) {
        const RowBits& row = kRowBits[half][bits];
        for (std::size_t i = 0; i < 4; ++i) {  // more than there are: nobody takes those
          std::uint16_t value;
          std::memcpy(&value, from + 2 * row.values[i], sizeof(value));
          to[half][i] = {column + row.columns[i], value};
        }
        to[half] += row.count;
      }
    }
  }

  const BitmapPacking packing_;
  const std::size_t tiles_;  // of a strip
  const std::size_t run_bits_;
  const std::int64_t row_tiles_;
  const std::int64_t strips_;  // of a row tile
  const int header_;
  std::int64_t max_strip_bytes_ = 0;
  FirstStrips first_;
  Elements<std::byte> bytes_;
  Elements<std::uint32_t> offsets_, row_parts_;
  std::vector<std::uint32_t> sizes_;  // of strips, in units
};

}  // namespace

PackedFormat bitmap_format() { return format_of<BitmapReader, packing_named, pack_bitmap, 3>("bitmap", {"strips"}); }

}  // namespace sparsmith
