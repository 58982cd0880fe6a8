#include "formats/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/ceil_div.h"
#include "base/half.h"
#include "base/parallel_for.h"
#include "formats/row_parts.h"
#include "formats/scatter_layout.h"
#include "formats/scatter_rounds.h"
#include "formats/unpacked_rows.h"

namespace sparsmith {
namespace {

static_assert(scatter::kPartRows == kPartRows);

using scatter::Entry;
using scatter::RoundDealer;

// Byte offset of each column in row 0 of a tile. (In row r it is another chunk, and r rows further.)
std::vector<std::uint32_t> column_offsets(const ScatterPacking& packing) {
  std::vector<std::uint32_t> offsets;
  const bool natural = packing.columns == ScatterColumns::kNatural;
  for (std::uint32_t column = 0; column < static_cast<std::uint32_t>(packing.tile_columns()); ++column) {
    const std::uint32_t chunk = natural ? column / 8 : column / 32 * 4 + column / 4 % 2 * 2 + column / 2 % 2;
    const std::uint32_t element = natural ? column % 8 : column % 32 / 8 * 2 + column % 2;
    offsets.push_back(chunk * 16 + element * 2);
  }
  return offsets;
}

// Row and column in the tile of a byte offset: the inverse.
std::pair<std::uint32_t, std::uint32_t> tile_element(const ScatterPacking& packing, std::uint32_t offset) {
  const auto tile_columns = static_cast<std::uint32_t>(packing.tile_columns());
  const std::uint32_t row = offset / (tile_columns * 2);
  const std::uint32_t chunk = offset % (tile_columns * 2) / 16 ^ row % 8;
  const std::uint32_t element = offset % 16 / 2;
  if (packing.columns == ScatterColumns::kNatural) return {row, chunk * 8 + element};
  return {row, chunk / 4 * 32 + element / 2 * 8 + chunk / 2 % 2 * 4 + chunk % 2 * 2 + element % 2};
}

// The entries of a row block, tile by tile, each ordered by line.
class RowBlock {
 public:
  RowBlock(const CsrMatrix& matrix, const ScatterPacking& packing, DataType type,
           const std::vector<std::uint32_t>& first_rows)
      : matrix_(matrix),
        packing_(packing),
        type_(type),
        first_rows_(first_rows),
        column_offsets_(column_offsets(packing)),
        tile_bits_(std::countr_zero(static_cast<std::uint32_t>(packing.tile_columns()))) {
    offsets_.resize(static_cast<std::size_t>(ceil_div(matrix.cols, packing.tile_columns())) + 1);
  }

  void collect(std::int64_t block) {
    std::fill(offsets_.begin(), offsets_.end(), 0U);
    bits_.clear();
    for (std::uint32_t row = 0; row < static_cast<std::uint32_t>(packing_.tile_rows); ++row) count(row_of(block, row));
    for (std::size_t t = 1; t < offsets_.size(); ++t) offsets_[t] += offsets_[t - 1];
    entries_.resize(offsets_.back());
    next_.assign(offsets_.begin(), offsets_.end() - 1);
    const std::uint16_t* bits = bits_.data();
    for (std::uint32_t row = 0; row < static_cast<std::uint32_t>(packing_.tile_rows); ++row)
      bits = enter(row, row_of(block, row), bits);
  }

  std::span<const Entry> tile(std::int64_t t) const {
    return {entries_.data() + offsets_[t], offsets_[t + 1] - offsets_[t]};
  }
  std::int64_t size() const { return std::ssize(entries_); }

 private:
  static bool stored(std::uint16_t bits) { return (bits & 0x7FFFU) != 0; }

  // Rounds the values of a row, and counts in offsets_[t + 1] those that tile t gets.
  void count(std::int64_t row) {
    if (row >= matrix_.rows) return;
    for (std::int64_t i = matrix_.row_offsets[row]; i < matrix_.row_offsets[row + 1]; ++i) {
      const float value = matrix_.values[i];
      const std::uint16_t bits = type_ == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
      bits_.push_back(bits);
      offsets_[(matrix_.column_indices[i] >> tile_bits_) + 1] += stored(bits) ? 1 : 0;
    }
  }

  // Puts the entries of a row, which is row `in_tile` of its tiles, in their places; returns the bits behind its own.
  const std::uint16_t* enter(std::uint32_t in_tile, std::int64_t row, const std::uint16_t* bits) {
    if (row >= matrix_.rows) return bits;
    const std::uint32_t row_bytes = 2U << tile_bits_;
    const std::uint32_t swizzle = in_tile % 8 * 16;
    for (std::int64_t i = matrix_.row_offsets[row]; i < matrix_.row_offsets[row + 1]; ++i, ++bits) {
      if (!stored(*bits)) continue;
      const std::uint32_t column = matrix_.column_indices[i];
      const std::uint32_t tile = column >> tile_bits_;
      const std::uint32_t in_row = column_offsets_[column - (tile << tile_bits_)] ^ swizzle;
      entries_[next_[tile]++] = (in_tile * row_bytes + in_row) << 16 | *bits;
    }
    return bits;
  }

  std::int64_t row_of(std::int64_t block, std::uint32_t row) const {
    return std::int64_t{first_rows_[block * (packing_.tile_rows / scatter::kPartRows) + row / scatter::kPartRows]} +
           row % scatter::kPartRows;
  }

  const CsrMatrix& matrix_;
  const ScatterPacking& packing_;
  DataType type_;
  const std::vector<std::uint32_t>& first_rows_;
  const std::vector<std::uint32_t> column_offsets_;
  const int tile_bits_;              // of a column number: those of its place in the tile
  std::vector<std::uint16_t> bits_;  // of the values of the block's nonzeros, row by row
  std::vector<std::uint32_t> offsets_;
  std::vector<std::uint32_t> next_;
  std::vector<Entry> entries_;
};

Status check(const ScatterPacking& packing, DataType type) {
  if (packing.tile_rows != 16 && packing.tile_rows != 32 && packing.tile_rows != 64)
    return invalid_argument(fmt::format("scatter: tiles have 16, 32 or 64 rows, not {}", packing.tile_rows));
  if (packing.min_rounds < 0 || packing.min_rounds > 64 || packing.min_rounds % 4 != 0)
    return invalid_argument(
        fmt::format("scatter: the least number of rounds is a multiple of 4 up to 64, not {}", packing.min_rounds));
  if (type != DataType::kFloat16 && type != DataType::kBFloat16)
    return invalid_argument(fmt::format("scatter: values are fp16 or bf16, not {}", short_name(type)));
  return {};
}

// Words of a lane that every tile has at a fixed place.
std::int64_t fixed_words(const ScatterPacking& packing) {
  return packing.entry == ScatterEntry::kWord ? packing.min_rounds : packing.min_rounds / 4 * 3;
}

// Where a lane's word of those that have a fixed place stands in its tile.
std::size_t fixed_place(const ScatterPacking& packing, std::int64_t word, int lane) {
  const int i = static_cast<int>(word);
  const int stored = packing.entry == ScatterEntry::kByte ? scatter::fixed_order(packing.min_rounds, i) : i;
  return static_cast<std::size_t>(scatter::fixed_index(static_cast<int>(fixed_words(packing)), lane, stored));
}

// Of the tiles of a row block, beside the words that have a fixed place.
struct BlockTiles {
  std::vector<std::uint32_t> more;  // further words, tile by tile
  std::int64_t stored = 0;          // entries, without padding
};

// The value below which `share` of `sorted` lies; 0 when there is none.
std::int64_t quantile(const std::vector<std::uint32_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

int ScatterPacking::tile_columns() const { return scatter::kTileElements / tile_rows; }

std::string ScatterPacking::name() const {
  return fmt::format("scatter_{}_{}x{}{}_r{}", entry == ScatterEntry::kByte ? "byte" : "word", tile_rows,
                     tile_columns(), columns == ScatterColumns::kNatural ? "_natural" : "", min_rounds);
}

std::int64_t scatter_rounds(ScatterEntry entry, std::int64_t words) {
  return entry == ScatterEntry::kWord ? words : words / 3 * 4 + words % 3;
}

Result<PackedWeight> pack_scatter(const CsrMatrix& matrix, const ScatterPacking& packing, DataType type) {
  SPARSMITH_RETURN_IF_ERROR(check(packing, type));
  const std::int64_t row_blocks = ceil_div(matrix.rows, packing.tile_rows);
  const std::int64_t column_tiles = ceil_div(matrix.cols, packing.tile_columns());
  const std::int64_t tiles = row_blocks * column_tiles;
  if (tiles >= (std::int64_t{1} << 31))
    return invalid_argument(fmt::format("scatter: {} x {} has too many tiles", matrix.rows, matrix.cols));

  const std::vector<std::uint32_t> first_rows = deal_row_parts(matrix, packing.tile_rows / scatter::kPartRows);
  const std::int64_t fixed = fixed_words(packing);
  std::vector<std::size_t> places;  // of fixed words
  for (std::int64_t word = 0; word < fixed; ++word)
    for (int lane = 0; lane < scatter::kLanes; ++lane) places.push_back(fixed_place(packing, word, lane));

  PackedWeight packed;
  packed.packing = packing.name();
  packed.packer_version = 2;
  packed.rows = matrix.rows;
  packed.cols = matrix.cols;
  packed.nnz = matrix.nnz();
  packed.value_type = type;
  PackedArray entries{"entries", DataType::kUint32, std::vector<std::byte>(tiles * fixed * scatter::kLineBytes)};
  auto* first_words = reinterpret_cast<std::uint32_t*>(entries.bytes.data());
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(tiles) + 1, 0);
  std::vector<std::uint32_t> rounds(static_cast<std::size_t>(tiles), 0);
  std::vector<BlockTiles> blocks(static_cast<std::size_t>(row_blocks));
  parallel_for(row_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    RowBlock block(matrix, packing, type, first_rows);
    RoundDealer dealer(packing.entry, packing.min_rounds);
    for (std::int64_t b = begin; b < end; ++b) {
      block.collect(b);
      blocks[b].stored = block.size();
      for (std::int64_t t = 0; t < column_tiles; ++t) {
        const std::int64_t tile = b * column_tiles + t;
        const std::span<const std::uint32_t> words = dealer.deal(block.tile(t));
        rounds[tile] = static_cast<std::uint32_t>(dealer.rounds());
        offsets[tile + 1] = std::ssize(words) / scatter::kLanes - fixed;
        std::uint32_t* const to = first_words + tile * fixed * scatter::kLanes;
        for (std::size_t i = 0; i < places.size(); ++i) to[places[i]] = words[i];
        blocks[b].more.insert(blocks[b].more.end(), words.begin() + std::ssize(places), words.end());
      }
    }
  });
  for (std::int64_t t = 0; t < tiles; ++t) offsets[t + 1] += offsets[t];
  if (offsets.back() >= (std::int64_t{1} << 32))
    return invalid_argument(fmt::format("scatter: {} nonzeros exceed 32-bit tile offsets", matrix.nnz()));

  PackedArray more{"more_entries", DataType::kUint32, std::vector<std::byte>(offsets.back() * scatter::kLineBytes)};
  std::int64_t all_stored = 0;
  for (std::int64_t b = 0; b < row_blocks; ++b) {
    std::ranges::copy(std::as_bytes(std::span(blocks[b].more)),
                      more.bytes.begin() + offsets[b * column_tiles] * scatter::kLineBytes);
    all_stored += blocks[b].stored;
  }
  PackedArray more_offsets{"more_offsets", DataType::kUint32, std::vector<std::byte>((tiles + 1) * 4)};
  std::transform(offsets.begin(), offsets.end(), reinterpret_cast<std::uint32_t*>(more_offsets.bytes.data()),
                 [](std::int64_t offset) { return static_cast<std::uint32_t>(offset); });
  packed.arrays.push_back(std::move(entries));
  packed.arrays.push_back(std::move(more));
  packed.arrays.push_back(std::move(more_offsets));
  packed.arrays.push_back(row_parts_array(first_rows));

  std::int64_t all_rounds = 0;
  for (const std::uint32_t each : rounds) all_rounds += each;
  std::sort(rounds.begin(), rounds.end());
  packed.facts = {{"row_blocks", row_blocks},
                  {"column_tiles", column_tiles},
                  {"rounds", all_rounds},
                  {"padding", all_rounds * scatter::kLanes - all_stored},
                  {"rounds_p5", quantile(rounds, 0.05)},
                  {"rounds_p95", quantile(rounds, 0.95)},
                  {"rounds_max", quantile(rounds, 1)}};
  return packed;
}

namespace {

Status missing(std::string_view array) {
  return invalid_input(fmt::format("scatter: array '{}' is missing or has the wrong size", array));
}

// What the name says. Error: kInvalidInput for another name.
Result<ScatterPacking> packing_of(const std::string& name) {
  for (const ScatterEntry entry : {ScatterEntry::kByte, ScatterEntry::kWord})
    for (const int tile_rows : {16, 32, 64})
      for (int min_rounds = 0; min_rounds <= 64; min_rounds += 4)
        for (const ScatterColumns columns : {ScatterColumns::kFragments, ScatterColumns::kNatural})
          if (const ScatterPacking packing{entry, tile_rows, min_rounds, columns}; packing.name() == name)
            return packing;
  return invalid_input(fmt::format("scatter: \"{}\" is no packing of it", name));
}

// A tile's words, where they are stored.
struct TileWords {
  const ScatterPacking& packing;
  std::int64_t fixed;  // of each lane
  const std::uint32_t* entries;
  const std::uint32_t* more;

  std::uint32_t at(std::int64_t word, int lane) const {
    return word < fixed ? entries[fixed_place(packing, word, lane)] : more[(word - fixed) * scatter::kLanes + lane];
  }
};

// An entry of a tile's words: lane `lane`, round `round`.
Entry entry_at(ScatterEntry form, const TileWords& words, std::int64_t round, int lane) {
  if (form == ScatterEntry::kWord) return words.at(round, lane);
  const std::int64_t group = round / 4 * 3;
  const std::uint32_t position = words.at(group, lane) >> (8 * (round % 4)) & 0xFFU;
  const std::uint32_t value = words.at(group + 1 + round % 4 / 2, lane) >> (16 * (round % 2)) & 0xFFFFU;
  return (position / 4 * 128 + position % 4 * 2 + static_cast<std::uint32_t>(lane) * 4) << 16 | value;
}

// The nonzeros of a tile, by position; kInvalidInput when one lies outside.
Status read_tile(const ScatterPacking& packing, const TileWords& words, std::int64_t word_count,
                 std::vector<std::uint16_t>& tile) {
  tile.assign(scatter::kTileElements, 0);
  const std::int64_t rounds = scatter_rounds(packing.entry, word_count);
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (int lane = 0; lane < scatter::kLanes; ++lane) {
      const Entry entry = entry_at(packing.entry, words, round, lane);
      if ((entry & 0x7FFFU) == 0) continue;
      const std::uint32_t offset = scatter::offset_of(entry);
      if (offset >= scatter::kTileBytes || offset % 2 != 0)
        return invalid_input(fmt::format("scatter: an entry lies at byte {} of a tile", offset));
      tile[offset / 2] = static_cast<std::uint16_t>(entry);
    }
  }
  return {};
}

}  // namespace

Result<CsrMatrix> unpack_scatter(const PackedWeight& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(const ScatterPacking packing, packing_of(packed.packing));
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(packed.rows, packed.cols));
  if (size_of(packed.value_type) != 2) return invalid_input("scatter: values are fp16 or bf16");
  const PackedArray* entries = packed.array("entries");
  const PackedArray* more = packed.array("more_entries");
  const PackedArray* more_offsets = packed.array("more_offsets");
  const std::int64_t column_tiles = ceil_div(packed.cols, packing.tile_columns());
  const std::int64_t row_blocks = ceil_div(packed.rows, packing.tile_rows);
  const std::int64_t tiles = row_blocks * column_tiles;
  const std::int64_t fixed = fixed_words(packing);
  if (more_offsets == nullptr || more_offsets->bytes.size() != static_cast<std::size_t>(tiles + 1) * 4)
    return missing("more_offsets");
  if (entries == nullptr || static_cast<std::int64_t>(entries->bytes.size()) != tiles * fixed * scatter::kLineBytes)
    return missing("entries");
  const auto offsets = more_offsets->as<std::uint32_t>();
  if (offsets[0] != 0) return missing("more_offsets");
  if (more == nullptr || more->bytes.size() != offsets[tiles] * std::size_t{scatter::kLineBytes})
    return missing("more_entries");
  const std::int64_t parts = packing.tile_rows / scatter::kPartRows;
  SPARSMITH_RETURN_IF_ERROR(check_row_parts("scatter", packed.array("row_parts"), row_blocks * parts));
  const auto first_rows = packed.array("row_parts")->as<std::uint32_t>();

  const std::int64_t tile_width = packing.tile_columns();
  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows unpacked, UnpackedRows::create(packed, tiles * packing.tile_rows));
  std::vector<std::uint16_t> tile;
  for (std::int64_t t = 0; t < tiles; ++t) {
    if (offsets[t + 1] < offsets[t] || offsets[t + 1] > offsets[tiles])
      return invalid_input(fmt::format("scatter: tile {} ends before it begins, or after the last one", t));
    const std::int64_t words = fixed + offsets[t + 1] - offsets[t];
    if (words == 0) continue;
    if (packing.entry == ScatterEntry::kByte && words % 3 == 1)
      return invalid_input(fmt::format("scatter: tile {} has {} words a lane", t, words));
    const TileWords from{packing, fixed, entries->as<std::uint32_t>().data() + t * fixed * scatter::kLanes,
                         more->as<std::uint32_t>().data() + offsets[t] * std::size_t{32}};
    SPARSMITH_RETURN_IF_ERROR(read_tile(packing, from, words, tile));
    for (std::uint32_t i = 0; i < scatter::kTileElements; ++i) {
      if (tile[i] == 0) continue;
      const auto [row_in_tile, column_in_tile] = tile_element(packing, i * 2);
      const std::int64_t row = std::int64_t{first_rows[t / column_tiles * parts + row_in_tile / scatter::kPartRows]} +
                               row_in_tile % scatter::kPartRows;
      const std::int64_t column = t % column_tiles * tile_width + column_in_tile;
      if (row >= packed.rows || column >= packed.cols)
        return invalid_input(
            fmt::format("scatter: an entry at row {}, column {} of {} x {}", row, column, packed.rows, packed.cols));
      unpacked.add(row, static_cast<std::uint32_t>(column), tile[i]);
    }
  }
  return std::move(unpacked).matrix();
}

}  // namespace sparsmith
