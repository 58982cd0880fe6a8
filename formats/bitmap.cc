#include "formats/bitmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/half.h"
#include "base/parallel_for.h"
#include "formats/bitmap_layout.h"
#include "formats/row_parts.h"
#include "formats/unpacked_rows.h"

namespace sparsmith {
namespace {

using bitmap::kLanes;
using bitmap::kStripColumns;
using bitmap::kTileRows;
using bitmap::kUnitBytes;

static_assert(kTileRows == kPartRows);

using TileWords = std::array<std::uint32_t, kLanes>;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The lane and the bit that hold an element of a tile.
struct Place {
  std::uint8_t lane;
  std::uint8_t bit;
};

// The strips of each row tile whose place follows from their numbers.
struct FirstStrips {
  int count = 0;
  int units = 0;  // the room of one of them

  std::size_t begin(std::int64_t row_tile, std::int64_t strip) const {
    return static_cast<std::size_t>((row_tile * count + strip) * units);
  }
};

// A weight's strips as they lie.
struct StripPlaces {
  FirstStrips first;
  std::uint32_t largest = 0;
  std::uint64_t units = 0;             // of all
  std::vector<std::uint32_t> offsets;  // as they are stored

  std::size_t begin(std::int64_t row_tile, std::int64_t strip, std::int64_t strips) const {
    return strip < first.count ? first.begin(row_tile, strip)
                               : offsets[static_cast<std::size_t>(row_tile * strips + strip)];
  }
};

using Places = std::array<std::array<Place, kStripColumns>, kTileRows>;

const Places& element_places() {
  static const Places all = [] {
    Places result{};
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int bit = 0; bit < 32; ++bit) {
        result[static_cast<std::size_t>(bitmap::element_row(lane, bit))][static_cast<std::size_t>(
            bitmap::element_column(lane, bit))] = {static_cast<std::uint8_t>(lane), static_cast<std::uint8_t>(bit)};
      }
    }
    return result;
  }();
  return all;
}

// Splits a row of the matrix at strips: calls body(strip, first nonzero, end).
template <class Body>
void for_each_piece(const CsrMatrix& matrix, std::int64_t row, const Body& body) {
  const std::int64_t end = matrix.row_offsets[row + 1];
  for (std::int64_t i = matrix.row_offsets[row]; i < end;) {
    const std::int64_t strip = matrix.column_indices[i] / kStripColumns;
    const std::int64_t first = i;
    while (i < end && matrix.column_indices[i] / kStripColumns == strip) ++i;
    body(strip, first, i);
  }
}

// Where the values of each lane begin: counted by run, then by lane.
struct TileStarts {
  static constexpr std::size_t kMaxRuns = 8;
  std::array<std::array<std::uint16_t, kLanes>, kMaxRuns> of_lane;  // in the run
  std::array<std::uint16_t, kMaxRuns> of_run;                       // in the tile
  std::uint16_t values = 0;
};

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

// Where a value stands among those of its tile.
std::size_t value_index(const TileWords& words, const TileStarts& starts, std::size_t run_bits, Place place) {
  const std::size_t run = place.bit / run_bits;
  const std::uint32_t before = (words[place.lane] & ((1U << place.bit) - 1)) >> (run_bits * run);
  return static_cast<std::size_t>(starts.of_run[run]) + starts.of_lane[run][place.lane] +
         static_cast<std::size_t>(std::popcount(before));
}

class Packer {
 public:
  Packer(const CsrMatrix& matrix, const BitmapPacking& packing, DataType type)
      : matrix_(matrix),
        packing_(packing),
        run_bits_(static_cast<std::size_t>(packing.run_bits)),
        type_(type),
        strip_rows_(std::int64_t{kTileRows} * packing.tiles),
        row_tiles_(ceil_div(matrix.rows, strip_rows_)),
        strips_(ceil_div(matrix.cols, kStripColumns)),
        header_(bitmap::header_bytes(packing.tiles, packing.run_bits, packing.stored_offsets)),
        first_rows_(deal_row_parts(matrix, packing.tiles)) {}

  Result<PackedWeight> pack() {
    std::vector<std::uint32_t> sizes(static_cast<std::size_t>(row_tiles_ * strips_));
    parallel_for(row_tiles_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile) measure(tile, sizes.data() + tile * strips_);
    });
    const StripPlaces places = place(sizes);
    if (places.units > 0xFFFFFFFFU)
      return invalid_argument(fmt::format("bitmap: {} nonzeros exceed 32-bit offsets", matrix_.nnz()));
    PackedWeight packed;
    packed.packing = packing_.name();
    packed.packer_version = 3;
    packed.rows = matrix_.rows;
    packed.cols = matrix_.cols;
    packed.nnz = matrix_.nnz();
    packed.value_type = type_;
    packed.facts = {{"row_tiles", row_tiles_},
                    {"strips", strips_},
                    {"max_strip_bytes", places.largest * kUnitBytes},
                    {"first_strips", places.first.count},
                    {"first_units", places.first.units}};
    PackedArray strips{"strips", DataType::kUint8, std::vector<std::byte>(places.units * kUnitBytes)};
    parallel_for(row_tiles_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile) fill(tile, places, strips.bytes.data());
    });
    PackedArray offset_array{"strip_offsets", DataType::kUint32, std::vector<std::byte>(places.offsets.size() * 4)};
    std::memcpy(offset_array.bytes.data(), places.offsets.data(), offset_array.bytes.size());
    packed.arrays.push_back(std::move(strips));
    packed.arrays.push_back(std::move(offset_array));
    packed.arrays.push_back(row_parts_array(first_rows_));
    return packed;
  }

 private:
  // Calls body(tile of the strip, row in it, row of the matrix).
  template <class Body>
  void for_each_row(std::int64_t row_tile, const Body& body) const {
    for (int tile = 0; tile < packing_.tiles; ++tile) {
      const std::int64_t first = first_rows_[static_cast<std::size_t>(row_tile * packing_.tiles + tile)];
      for (std::int64_t row = first; row < std::min(matrix_.rows, first + kTileRows); ++row)
        body(static_cast<std::size_t>(tile), static_cast<std::size_t>(row - first), row);
    }
  }

  // The size of each strip, in units.
  void measure(std::int64_t row_tile, std::uint32_t* units) const {
    std::vector<std::uint32_t> nonzeros(static_cast<std::size_t>(strips_));
    for_each_row(row_tile, [&](std::size_t, std::size_t, std::int64_t row) {
      for_each_piece(matrix_, row, [&](std::int64_t strip, std::int64_t begin, std::int64_t end) {
        nonzeros[static_cast<std::size_t>(strip)] += static_cast<std::uint32_t>(end - begin);
      });
    });
    for (std::size_t i = 0; i < nonzeros.size(); ++i)
      units[i] = (static_cast<std::uint32_t>(header_) + 2 * nonzeros[i] + kUnitBytes - 1) / kUnitBytes;
  }

  // Where strips of these sizes lie.
  StripPlaces place(const std::vector<std::uint32_t>& sizes) const {
    StripPlaces places;
    for (const std::uint32_t size : sizes) places.largest = std::max(places.largest, size);
    places.first = choose_first_strips(sizes);
    places.units = static_cast<std::uint64_t>(row_tiles_ * places.first.count * places.first.units);
    places.offsets.reserve(sizes.size() + 1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      places.offsets.push_back(static_cast<std::uint32_t>(places.units));
      if (!is_first(i, places.first.count)) places.units += sizes[i];
    }
    places.offsets.push_back(static_cast<std::uint32_t>(places.units));
    return places;
  }

  // How many strips of each row tile have the same room, and how much: the largest of them sets it, so that fewer may
  // have to do.
  FirstStrips choose_first_strips(const std::vector<std::uint32_t>& sizes) const {
    const std::int64_t most = row_tiles_ * bitmap::kMaxFirstPadding / kUnitBytes;
    for (std::int64_t count = std::min<std::int64_t>(strips_, bitmap::kFirstStrips); count > 0; count /= 2) {
      std::int64_t room = 0;
      std::int64_t used = 0;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (!is_first(i, count)) continue;
        room = std::max<std::int64_t>(room, sizes[i]);
        used += sizes[i];
      }
      if (row_tiles_ * count * room - used <= most) return {static_cast<int>(count), static_cast<int>(room)};
    }
    return {};
  }

  // Whether strip `i` of all is among the first `count` of its row tile.
  bool is_first(std::size_t i, std::int64_t count) const { return static_cast<std::int64_t>(i) % strips_ < count; }

  void fill(std::int64_t row_tile, const StripPlaces& places, std::byte* bytes) const {
    const auto tiles = static_cast<std::size_t>(packing_.tiles);
    const auto strips = static_cast<std::size_t>(strips_);
    std::vector<TileWords> words(strips * tiles);  // of a strip its tiles
    for_each_row(row_tile, [&](std::size_t r, std::size_t row_of_tile, std::int64_t row) {
      for_each_piece(matrix_, row, [&](std::int64_t strip, std::int64_t begin, std::int64_t end) {
        TileWords& tile = words[static_cast<std::size_t>(strip) * tiles + r];
        for (std::int64_t i = begin; i < end; ++i) {
          const Place place = element_places()[row_of_tile][matrix_.column_indices[i] % kStripColumns];
          tile[place.lane] |= 1U << place.bit;
        }
      });
    });
    std::vector<TileStarts> starts(words.size());
    std::vector<std::uint16_t*> values(words.size());
    for (std::size_t strip = 0; strip < strips; ++strip)
      begin_strip(bytes + places.begin(row_tile, static_cast<std::int64_t>(strip), strips_) * kUnitBytes,
                  words.data() + strip * tiles, starts.data() + strip * tiles, values.data() + strip * tiles);
    for_each_row(row_tile, [&](std::size_t r, std::size_t row_of_tile, std::int64_t row) {
      for_each_piece(matrix_, row, [&](std::int64_t strip, std::int64_t begin, std::int64_t end) {
        const std::size_t tile = static_cast<std::size_t>(strip) * tiles + r;
        for (std::int64_t i = begin; i < end; ++i) {
          const Place place = element_places()[row_of_tile][matrix_.column_indices[i] % kStripColumns];
          values[tile][value_index(words[tile], starts[tile], run_bits_, place)] = convert(matrix_.values[i]);
        }
      });
    });
  }

  // Writes all but the values, and says where those of each tile go.
  void begin_strip(std::byte* strip, const TileWords* words, TileStarts* starts, std::uint16_t** values) const {
    const auto tiles = static_cast<std::size_t>(packing_.tiles);
    const std::size_t runs = 32 / run_bits_;
    const std::size_t start_words = packing_.stored_offsets ? runs / 4 : 0;  // a lane's of a tile
    std::memcpy(strip, words, tiles * sizeof(TileWords));
    std::byte* const stored = strip + tiles * sizeof(TileWords);
    std::byte* const firsts = stored + tiles * start_words * sizeof(TileWords);
    std::size_t count = 0;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      starts[tile] = starts_of(words[tile], run_bits_);
      values[tile] = reinterpret_cast<std::uint16_t*>(strip + header_) + count;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        for (std::size_t s = 0; s < start_words; ++s) {
          std::uint32_t word = 0;
          for (std::size_t i = 0; i < 4; ++i)
            word |= std::uint32_t{starts[tile].of_lane[start_words * i + s][lane]} << (8 * i);
          std::memcpy(stored + ((tile * kLanes + lane) * start_words + s) * sizeof(word), &word, sizeof(word));
        }
      }
      for (std::size_t run = 0; run < runs; ++run) {
        const auto first = static_cast<std::uint16_t>(2 * (count + starts[tile].of_run[run]));
        std::memcpy(firsts + (tile * runs + run) * sizeof(first), &first, sizeof(first));
      }
      count += starts[tile].values;
    }
  }

  std::uint16_t convert(float value) const {
    return type_ == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
  }

  const CsrMatrix& matrix_;
  const BitmapPacking packing_;
  const std::size_t run_bits_;
  const DataType type_;
  const std::int64_t strip_rows_;
  const std::int64_t row_tiles_;
  const std::int64_t strips_;
  const int header_;
  const std::vector<std::uint32_t> first_rows_;  // of a row tile's tiles
};

// Of "bitmap_r4_b8_scanned"; nothing when it is no such name.
Result<BitmapPacking> packing_named(std::string_view name) {
  for (const int tiles : {1, 2, 4}) {
    for (const int run_bits : {4, 8}) {
      for (const bool stored : {false, true}) {
        const BitmapPacking packing{tiles, run_bits, stored};
        if (packing.name() == name) return packing;
      }
    }
  }
  return invalid_input(fmt::format("bitmap: no packing is named '{}'", name));
}

// Of a packed weight whose row tiles have `strips` strips of at most `max_bytes`.
Result<FirstStrips> first_strips_of(const PackedWeight& packed, std::int64_t strips, int max_bytes) {
  const auto fact = [&packed](const char* name) {
    const auto found = packed.facts.find(name);
    return found == packed.facts.end() ? -1 : found->second;
  };
  const std::int64_t count = fact("first_strips");
  const std::int64_t units = fact("first_units");
  if (count < 0 || count > std::min<std::int64_t>(strips, bitmap::kFirstStrips) || units < 0 ||
      units > max_bytes / kUnitBytes)
    return invalid_input(fmt::format("bitmap: {} first strips with room for {} units each", count, units));
  return FirstStrips{static_cast<int>(count), static_cast<int>(units)};
}

}  // namespace

std::string BitmapPacking::name() const {
  return fmt::format("bitmap_r{}_b{}_{}", tiles, run_bits, stored_offsets ? "stored" : "scanned");
}

Result<PackedWeight> pack_bitmap(const CsrMatrix& matrix, const BitmapPacking& packing, DataType type) {
  if (packing.tiles != 1 && packing.tiles != 2 && packing.tiles != 4)
    return invalid_argument(fmt::format("bitmap: a strip is 1, 2 or 4 tiles, not {}", packing.tiles));
  if (packing.run_bits != 4 && packing.run_bits != 8)
    return invalid_argument(fmt::format("bitmap: a run is 4 or 8 bits, not {}", packing.run_bits));
  if (type != DataType::kFloat16 && type != DataType::kBFloat16)
    return invalid_argument(fmt::format("bitmap: values are fp16 or bf16, not {}", short_name(type)));
  if (matrix.rows >= (std::int64_t{1} << 31) || matrix.cols >= (std::int64_t{1} << 31) - kStripColumns)
    return invalid_argument(fmt::format("bitmap: {} x {} exceeds 32-bit indices", matrix.rows, matrix.cols));
  return Packer(matrix, packing, type).pack();
}

Result<CsrMatrix> unpack_bitmap(const PackedWeight& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(const BitmapPacking packing, packing_named(packed.packing));
  const PackedArray* strips = packed.array("strips");
  const PackedArray* offset_array = packed.array("strip_offsets");
  const std::int64_t strip_rows = std::int64_t{kTileRows} * packing.tiles;
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(packed.rows, packed.cols));
  const std::int64_t columns = ceil_div(packed.cols, kStripColumns);
  const std::int64_t count = ceil_div(packed.rows, strip_rows) * columns;
  if (strips == nullptr || offset_array == nullptr || offset_array->type != DataType::kUint32 ||
      offset_array->size() != count + 1)
    return invalid_input("bitmap: array 'strips' or 'strip_offsets' is missing or has the wrong size");
  if (packed.value_type != DataType::kFloat16 && packed.value_type != DataType::kBFloat16)
    return invalid_input("bitmap: values are fp16 or bf16");
  SPARSMITH_RETURN_IF_ERROR(
      check_row_parts("bitmap", packed.array("row_parts"), ceil_div(packed.rows, strip_rows) * packing.tiles));
  const auto first_rows = packed.array("row_parts")->as<std::uint32_t>();
  const auto offsets = offset_array->as<std::uint32_t>();
  const auto header =
      static_cast<std::size_t>(bitmap::header_bytes(packing.tiles, packing.run_bits, packing.stored_offsets));
  if (strips->bytes.size() / header < static_cast<std::size_t>(count))
    return invalid_input(fmt::format("bitmap: {} bytes for {} strips", strips->bytes.size(), count));
  SPARSMITH_ASSIGN_OR_RETURN(
      const FirstStrips first,
      first_strips_of(packed, columns,
                      bitmap::max_strip_bytes(packing.tiles, packing.run_bits, packing.stored_offsets)));

  const auto run_bits = static_cast<std::size_t>(packing.run_bits);
  // Of each strip its words, and where the values of each tile begin.
  const auto tiles = static_cast<std::size_t>(packing.tiles);
  const auto total = static_cast<std::size_t>(count);
  std::vector<TileWords> words(total * tiles);
  std::vector<TileStarts> starts(words.size());
  std::vector<const std::byte*> values(words.size());
  for (std::size_t strip = 0; strip < total; ++strip) {
    const auto [row_tile, column] = std::div(static_cast<std::int64_t>(strip), columns);
    const bool is_first = column < first.count;
    const std::size_t begin = (is_first ? first.begin(row_tile, column) : offsets[strip]) * kUnitBytes;
    const std::size_t end = is_first ? begin + static_cast<std::size_t>(first.units * kUnitBytes)
                                     : std::size_t{offsets[strip + 1]} * kUnitBytes;
    if (end > strips->bytes.size() || begin + header > end)
      return invalid_input(
          fmt::format("bitmap: strip {} lies at bytes {} to {} of {}", strip, begin, end, strips->bytes.size()));
    std::memcpy(words.data() + strip * tiles, strips->bytes.data() + begin, tiles * sizeof(TileWords));
    std::size_t at = begin + header;
    for (std::size_t tile = strip * tiles; tile < (strip + 1) * tiles; ++tile) {
      starts[tile] = starts_of(words[tile], run_bits);
      values[tile] = strips->bytes.data() + at;
      at += std::size_t{starts[tile].values} * 2;
    }
    if (at > end) return invalid_input(fmt::format("bitmap: strip {} holds more bits than values", strip));
  }

  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows unpacked, UnpackedRows::create(packed, count * strip_rows));
  for (std::size_t part = 0; part < first_rows.size(); ++part) {
    const std::int64_t end = std::min<std::int64_t>(packed.rows, std::int64_t{first_rows[part]} + kTileRows);
    for (std::int64_t row = first_rows[part]; row < end; ++row) {
      const auto& line = element_places()[static_cast<std::size_t>(row % kTileRows)];
      for (std::int64_t column = 0; column < packed.cols; ++column) {
        const std::size_t strip = part / tiles * static_cast<std::size_t>(columns) + column / kStripColumns;
        const std::size_t tile = strip * tiles + part % tiles;
        const Place place = line[static_cast<std::size_t>(column % kStripColumns)];
        if ((words[tile][place.lane] >> place.bit & 1U) == 0) continue;
        std::uint16_t bits = 0;
        std::memcpy(&bits, values[tile] + 2 * value_index(words[tile], starts[tile], run_bits, place), 2);
        unpacked.add(row, static_cast<std::uint32_t>(column), bits);
      }
    }
  }
  return std::move(unpacked).matrix();
}

}  // namespace sparsmith
