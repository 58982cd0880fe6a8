#include "formats/bitmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/bitmap_layout.h"
#include "formats/packed_reader.h"
#include "formats/row_parts.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

using bitmap::kLanes;
using bitmap::kStripColumns;
using bitmap::kTileRows;
using bitmap::kUnitBytes;

static_assert(kTileRows == kPartRows);

using TileWords = std::array<std::uint32_t, kLanes>;

// How a weight is cut into strips.
struct Grid {
  Grid(const BitmapPacking& packing, std::int64_t rows, std::int64_t cols)
      : row_tiles(ceil_div(rows, std::int64_t{kTileRows} * packing.tiles)),
        strips(ceil_div(cols, kStripColumns)),
        tiles(packing.tiles),
        run_bits(packing.run_bits),
        start_words(packing.stored_offsets ? 8 / run_bits : 0),
        words_bytes(tiles * sizeof(TileWords)),
        header(bitmap::header_bytes(packing.tiles, packing.run_bits, packing.stored_offsets)) {}

  // What holds the header of a strip and so many values.
  std::uint32_t units_of(std::uint32_t values) const {
    return static_cast<std::uint32_t>(ceil_div(header + 2 * std::int64_t{values}, kUnitBytes));
  }

  std::int64_t row_tiles;
  std::int64_t strips;      // of a row tile
  std::size_t tiles;        // of a strip
  std::size_t run_bits;     // of a word, whose values lie together
  std::size_t start_words;  // of a lane of a tile: bytes that say where its values begin
  std::size_t words_bytes;  // of a strip, and bytes of its whole header
  int header;
};

// The lane and the bit that hold an element of a tile, by row and column.
struct Place {
  std::uint8_t lane;
  std::uint8_t bit;
};
constexpr auto kPlaces = [] {
  std::array<std::array<Place, kStripColumns>, kTileRows> places{};
  for (int lane = 0; lane < kLanes; ++lane)
    for (int bit = 0; bit < 32; ++bit)
      places[bitmap::element_row(lane, bit)][bitmap::element_column(lane, bit)] = {static_cast<std::uint8_t>(lane),
                                                                                   static_cast<std::uint8_t>(bit)};
  return places;
}();

std::optional<BitmapPacking> packing_named(std::string_view name) {
  for (const int tiles : {1, 2, 4})
    for (const int run_bits : {4, 8})
      for (const bool stored : {false, true})
        if (const BitmapPacking packing{tiles, run_bits, stored}; packing.name() == name) return packing;
  return std::nullopt;
}

// A weight's strips as they lie.
struct StripPlaces {
  // The first strips of each row tile, whose places follow from their numbers: how many, and the units of each.
  std::int64_t first_count = 0;
  std::int64_t first_units = 0;
  std::int64_t largest = 0;            // units of a strip
  std::int64_t units = 0;              // of all
  std::vector<std::uint32_t> offsets;  // as they are stored

  // The first unit of a strip, counted through all row tiles.
  std::int64_t begin(std::int64_t strip, std::int64_t strips) const {
    const std::int64_t column = strip % strips;
    return column < first_count ? (strip / strips * first_count + column) * first_units : offsets[strip];
  }
  bool operator==(const StripPlaces&) const = default;
};

// Where strips of these sizes lie, in units. The largest of the first strips sets the room of all of them, so that
// fewer may have to do.
StripPlaces place_strips(const Grid& grid, const std::vector<std::uint32_t>& sizes) {
  StripPlaces places;
  const std::int64_t most = grid.row_tiles * bitmap::kMaxFirstPadding / kUnitBytes;
  for (std::int64_t count = std::min<std::int64_t>(grid.strips, bitmap::kFirstStrips); count > 0; count /= 2) {
    std::int64_t room = 0;
    std::int64_t used = 0;
    for (std::int64_t first = 0; first < std::ssize(sizes); first += grid.strips) {
      for (const std::int64_t size : std::span(sizes).subspan(first, count)) {
        room = std::max(room, size);
        used += size;
      }
    }
    if (grid.row_tiles * count * room - used > most) continue;
    places.first_count = count;
    places.first_units = room;
    break;
  }
  places.units = grid.row_tiles * places.first_count * places.first_units;
  places.offsets.reserve(sizes.size() + 1);
  for (std::int64_t strip = 0; strip < std::ssize(sizes); ++strip) {
    places.offsets.push_back(static_cast<std::uint32_t>(places.units));
    if (strip % grid.strips >= places.first_count) places.units += sizes[strip];
    places.largest = std::max<std::int64_t>(places.largest, sizes[strip]);
  }
  places.offsets.push_back(static_cast<std::uint32_t>(places.units));
  return places;
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

// Writes what the header of a strip of these tiles has behind their words, and finds where the values of each begin.
// Returns how many values follow.
std::uint32_t write_starts(const Grid& grid, const TileWords* words, TileStarts* starts, std::byte* stored) {
  std::byte* firsts = stored + grid.tiles * grid.start_words * sizeof(TileWords);
  std::uint32_t count = 0;
  for (std::size_t tile = 0; tile < grid.tiles; ++tile) {
    starts[tile] = starts_of(words[tile], grid.run_bits);
    for (std::size_t s = 0; s < grid.start_words; ++s)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        std::memcpy(stored + (lane * grid.start_words + s) * sizeof(std::uint32_t), &starts[tile].of_lane[s][lane],
                    sizeof(std::uint32_t));
    stored += grid.start_words * sizeof(TileWords);
    for (std::size_t run = 0; run < 32 / grid.run_bits; ++run, firsts += sizeof(std::uint16_t)) {
      const auto first = static_cast<std::uint16_t>(2 * (count + starts[tile].of_run[run]));
      std::memcpy(firsts, &first, sizeof(first));
    }
    count += starts[tile].values;
  }
  return count;
}

class Packer {
 public:
  Packer(const CsrMatrix& matrix, const BitmapPacking& packing, DataType type)
      : matrix_(matrix),
        grid_(packing, matrix.rows, matrix.cols),
        type_(type),
        first_rows_(deal_row_parts(matrix.row_offsets, packing.tiles)) {}

  Status pack(PackedWeight& packed) {
    std::vector<std::uint32_t> sizes(grid_.row_tiles * grid_.strips);
    parallel_each(grid_.row_tiles, [&](std::int64_t tile) { measure(tile, sizes.data() + tile * grid_.strips); });
    const StripPlaces places = place_strips(grid_, sizes);
    if (places.units > 0xFFFFFFFF)
      return invalid_argument(fmt::format("bitmap: {} nonzeros exceed 32-bit offsets", matrix_.nnz()));
    packed.facts = {{"row_tiles", grid_.row_tiles},
                    {"strips", grid_.strips},
                    {"max_strip_bytes", places.largest * kUnitBytes},
                    {"first_strips", places.first_count},
                    {"first_units", places.first_units}};
    PackedArray strips{"strips", DataType::kUint8, std::vector<std::byte>(places.units * kUnitBytes)};
    parallel_each(grid_.row_tiles, [&](std::int64_t tile) { fill(tile, places, strips.bytes.data()); });
    packed.arrays.push_back(std::move(strips));
    packed.arrays.push_back(array_of("strip_offsets", DataType::kUint32, places.offsets));
    packed.arrays.push_back(array_of("row_parts", DataType::kUint32, first_rows_));
    return {};
  }

 private:
  // Splits the rows of a row tile at strips: calls body(strip, tile of the strip, row in it, first nonzero, end).
  template <class Body>
  void for_each_piece(std::int64_t row_tile, const Body& body) const {
    for (std::size_t tile = 0; tile < grid_.tiles; ++tile) {
      const std::int64_t first_row = first_rows_[row_tile * grid_.tiles + tile];
      for (std::int64_t row = first_row; row < std::min(matrix_.rows, first_row + kTileRows); ++row) {
        const std::int64_t end = matrix_.row_offsets[row + 1];
        for (std::int64_t i = matrix_.row_offsets[row]; i < end;) {
          const std::size_t strip = matrix_.column_indices[i] / kStripColumns;
          const std::int64_t first = i;
          while (i < end && matrix_.column_indices[i] / kStripColumns == strip) ++i;
          body(strip, tile, row - first_row, first, i);
        }
      }
    }
  }

  // The size of each strip, in units.
  void measure(std::int64_t row_tile, std::uint32_t* units) const {
    std::vector<std::uint32_t> nonzeros(grid_.strips);
    for_each_piece(row_tile, [&](std::size_t strip, std::size_t, std::size_t, std::int64_t begin, std::int64_t end) {
      nonzeros[strip] += static_cast<std::uint32_t>(end - begin);
    });
    std::ranges::transform(nonzeros, units, [&](std::uint32_t values) { return grid_.units_of(values); });
  }

  void fill(std::int64_t row_tile, const StripPlaces& places, std::byte* bytes) const {
    std::vector<TileWords> words(grid_.strips * grid_.tiles);  // of a strip its tiles
    for_each_piece(row_tile, [&](std::size_t strip, std::size_t r, std::size_t row, std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) {
        const Place place = kPlaces[row][matrix_.column_indices[i] % kStripColumns];
        words[strip * grid_.tiles + r][place.lane] |= 1U << place.bit;
      }
    });
    std::vector<TileStarts> starts(words.size());
    std::vector<std::uint16_t*> values(words.size());
    for (std::int64_t strip = 0; strip < grid_.strips; ++strip) {
      const std::size_t first = strip * grid_.tiles;
      std::byte* const to = bytes + places.begin(row_tile * grid_.strips + strip, grid_.strips) * kUnitBytes;
      std::memcpy(to, &words[first], grid_.words_bytes);
      write_starts(grid_, &words[first], &starts[first], to + grid_.words_bytes);
      auto* next = reinterpret_cast<std::uint16_t*>(to + grid_.header);
      for (std::size_t tile = first; tile < first + grid_.tiles; next += starts[tile++].values) values[tile] = next;
    }
    for_each_piece(row_tile, [&](std::size_t strip, std::size_t r, std::size_t row, std::int64_t i, std::int64_t end) {
      const std::size_t tile = strip * grid_.tiles + r;
      for (; i < end; ++i) {
        const Place place = kPlaces[row][matrix_.column_indices[i] % kStripColumns];
        const std::size_t run = place.bit / grid_.run_bits;
        const std::uint32_t before = (words[tile][place.lane] & ((1U << place.bit) - 1)) >> (grid_.run_bits * run);
        values[tile][starts[tile].first(run, grid_.run_bits, place.lane) + std::popcount(before)] =
            half_bits(matrix_.values[i], type_);
      }
    });
  }

  const CsrMatrix& matrix_;
  const Grid grid_;
  const DataType type_;
  const std::vector<std::uint32_t> first_rows_;  // of a row tile's tiles
};

Status pack_weight(const CsrMatrix& matrix, const BitmapPacking& packing, DataType type, PackedWeight& packed) {
  return Packer(matrix, packing, type).pack(packed);
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
      : grid_(packing, view.rows, view.cols) {
    const int most = bitmap::max_strip_bytes(packing.tiles, packing.run_bits, packing.stored_offsets);
    parts.expect_fact("row_tiles", grid_.row_tiles);
    parts.expect_fact("strips", grid_.strips);
    const std::int64_t largest = parts.fact("max_strip_bytes", 0, most);
    places_.largest = largest / kUnitBytes;
    places_.first_count = parts.fact("first_strips", 0, std::min<std::int64_t>(grid_.strips, bitmap::kFirstStrips));
    places_.first_units = parts.fact("first_units", 0, most / kUnitBytes);
    bytes_ = parts.array<std::byte>("strips", DataType::kUint8);
    places_.units = bytes_.size() / kUnitBytes;
    parts.require(largest % kUnitBytes == 0 && bytes_.size() % kUnitBytes == 0, "strips are not of whole units");
    offsets_ = parts.array<std::uint32_t>("strip_offsets", DataType::kUint32, grid_.row_tiles * grid_.strips + 1);
    row_parts_ = parts.array<std::uint32_t>("row_parts", DataType::kUint32, grid_.row_tiles * packing.tiles);
  }

  Status check_bounds(int threads) override {
    SPARSMITH_RETURN_IF_ERROR(check_row_parts(row_parts_));
    places_.offsets.resize(offsets_.size());
    std::memcpy(places_.offsets.data(), offsets_.bytes().data(), offsets_.bytes().size());
    std::vector<std::uint32_t> sizes(grid_.row_tiles * grid_.strips);
    SPARSMITH_RETURN_IF_ERROR(check_each(std::ssize(sizes), 256, threads, [&](std::int64_t strip) -> Status {
      if (check_strip(strip, sizes[strip])) return {};
      return invalid_input(fmt::format("strip {} does not lie where its offset says, or counts other values", strip));
    }));
    if (place_strips(grid_, sizes) == places_) return {};
    return invalid_input("strips, or the largest and the first of them, do not lie where packers put them");
  }

  std::int64_t units() const override { return grid_.row_tiles; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(unit, grid_.tiles * kTileRows);
    for (std::int64_t s = 0; s < grid_.strips; ++s) {
      const std::int64_t strip = unit * grid_.strips + s;
      const std::span<const std::byte> bytes = bytes_of(strip);
      const std::byte* values = bytes.data() + grid_.header;
      for (std::size_t tile = 0; tile < grid_.tiles; ++tile)
        values += 2 * read_tile(bytes.data() + tile * sizeof(TileWords), values, tile * kTileRows,
                                static_cast<std::uint32_t>(s * kStripColumns), rows);
      if (!all_zero(bytes.subspan(values - bytes.data())))
        return invalid_input(fmt::format("strip {}: padding behind its values is not 0", strip));
    }
    return rows.store(rows_of_block(row_parts_, unit, static_cast<int>(grid_.tiles)));
  }

  Status check_whole(const UnpackedRows& rows) const override {
    return check_dealt_parts(row_parts_, rows.offsets(), static_cast<int>(grid_.tiles));
  }

 private:
  // With the room behind it that belongs to it. Empty: it lies outside.
  std::span<const std::byte> bytes_of(std::int64_t strip) const {
    const bool is_first = strip % grid_.strips < places_.first_count;
    const std::int64_t begin = places_.begin(strip, grid_.strips);
    const std::int64_t units =
        is_first ? places_.first_units : std::int64_t{places_.offsets[strip + 1]} - places_.offsets[strip];
    if (units < 0 || begin > places_.units || units > places_.units - begin) return {};
    return bytes_.bytes().subspan(begin * kUnitBytes, units * kUnitBytes);
  }

  // Whether a strip's header is the one that its bits ask for. size: of the strip, in units.
  bool check_strip(std::int64_t strip, std::uint32_t& size) const {
    const std::span<const std::byte> bytes = bytes_of(strip);
    if (std::ssize(bytes) < grid_.header) return false;
    std::array<TileWords, kMostTiles> words;
    std::array<TileStarts, kMostTiles> starts;
    std::array<std::byte, bitmap::header_bytes(kMostTiles, 4, true)> rest;
    std::memcpy(words.data(), bytes.data(), grid_.words_bytes);
    size = grid_.units_of(write_starts(grid_, words.data(), starts.data(), rest.data()));
    return std::memcmp(rest.data(), bytes.data() + grid_.words_bytes, grid_.header - grid_.words_bytes) == 0;
  }

  // Returns the number of values.
  std::size_t read_tile(const std::byte* tile, const std::byte* values, std::size_t first_row,
                        std::uint32_t first_column, UnitRows& rows) const {
    TileWords words;
    std::memcpy(words.data(), tile, sizeof(TileWords));
    const TileStarts starts = starts_of(words, grid_.run_bits);
    if (starts.values == 0) return 0;
    for (std::size_t group = 0; group < 8; ++group) {
      std::array<UnitRows::Entry*, 2> to;
      for (std::size_t half = 0; half < 2; ++half)
        to[half] = rows.room(first_row + group + 8 * half, kStripColumns + 4);
      for (std::size_t lane = 4 * group; lane < 4 * group + 4; ++lane)
        if (words[lane] != 0)
          grid_.run_bits == 8 ? read_lane<8>(words[lane], starts, lane, values, first_column, to)
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

  static constexpr int kMostTiles = 4;

  const Grid grid_;
  StripPlaces places_;
  Elements<std::byte> bytes_;
  Elements<std::uint32_t> offsets_, row_parts_;
};

}  // namespace

std::string BitmapPacking::name() const {
  return fmt::format("bitmap_r{}_b{}_{}", tiles, run_bits, stored_offsets ? "stored" : "scanned");
}

PackedFormat bitmap_format() {
  return format_of<BitmapReader, packing_named, pack_weight, 3>(
      {.name = "bitmap", .value_arrays = {"strips"}, .halves_only = true});
}

}  // namespace sparsmith
