#include "formats/bitmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/bitmap_layout.h"
#include "formats/bitmap_tiles.h"
#include "formats/row_parts.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

using bitmap::element_places;
using bitmap::FirstStrips;
using bitmap::kLanes;
using bitmap::kStripColumns;
using bitmap::kTileRows;
using bitmap::kUnitBytes;
using bitmap::Place;
using bitmap::TileStarts;
using bitmap::TileWords;

static_assert(kTileRows == kPartRows);

// A weight's strips as they lie.
struct StripPlaces {
  FirstStrips first;
  std::uint32_t largest = 0;
  std::uint64_t units = 0;             // of all
  std::vector<std::uint32_t> offsets;  // as they are stored

  std::size_t begin(std::int64_t row_tile, std::int64_t strip, std::int64_t strips) const {
    return strip < first.count ? static_cast<std::size_t>(first.begin(row_tile, strip))
                               : offsets[static_cast<std::size_t>(row_tile * strips + strip)];
  }
};

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
    for (std::size_t i = 0; i < nonzeros.size(); ++i) units[i] = bitmap::units_of(header_, nonzeros[i]);
  }

  // Where strips of these sizes lie.
  StripPlaces place(const std::vector<std::uint32_t>& sizes) const {
    StripPlaces places;
    for (const std::uint32_t size : sizes) places.largest = std::max(places.largest, size);
    places.first = bitmap::choose_first_strips(sizes, row_tiles_, strips_);
    places.units = static_cast<std::uint64_t>(row_tiles_ * places.first.count * places.first.units);
    places.offsets.reserve(sizes.size() + 1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      places.offsets.push_back(static_cast<std::uint32_t>(places.units));
      if (!is_first(i, places.first.count)) places.units += sizes[i];
    }
    places.offsets.push_back(static_cast<std::uint32_t>(places.units));
    return places;
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
          values[tile][bitmap::value_index(words[tile], starts[tile], run_bits_, place)] =
              half_bits(matrix_.values[i], type_);
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
      starts[tile] = bitmap::starts_of(words[tile], run_bits_);
      values[tile] = reinterpret_cast<std::uint16_t*>(strip + header_) + count;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        for (std::size_t s = 0; s < start_words; ++s) {
          const std::uint32_t word = starts[tile].of_lane[s][lane];
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

}  // namespace sparsmith
