#include "formats/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/row_parts.h"
#include "formats/scatter_layout.h"
#include "formats/scatter_rounds.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

static_assert(scatter::kPartRows == kPartRows);

using scatter::Entry;
using scatter::RoundDealer;

// Byte offset of each column in row 0 of a tile. (In row r it is another chunk, and r rows further.)
std::vector<std::uint32_t> column_offsets(const ScatterPacking& packing) {
  const std::vector<std::uint16_t> indices = scatter::element_indices(packing);
  std::vector<std::uint32_t> offsets(packing.tile_columns());
  for (std::uint32_t at = 0; at < offsets.size(); ++at) offsets[indices[at]] = 2 * at;
  return offsets;
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

 private:
  // Rounds the values of a row, and counts in offsets_[t + 1] those that tile t gets.
  void count(std::int64_t row) {
    if (row >= matrix_.rows) return;
    for (std::int64_t i = matrix_.row_offsets[row]; i < matrix_.row_offsets[row + 1]; ++i) {
      bits_.push_back(with_negative_zero(half_bits(matrix_.values[i], type_)));
      ++offsets_[(matrix_.column_indices[i] >> tile_bits_) + 1];
    }
  }

  // Puts the entries of a row, which is row `in_tile` of its tiles, in their places; returns the bits behind its own.
  const std::uint16_t* enter(std::uint32_t in_tile, std::int64_t row, const std::uint16_t* bits) {
    if (row >= matrix_.rows) return bits;
    const std::uint32_t row_bytes = 2U << tile_bits_;
    const std::uint32_t swizzle = in_tile % 8 * 16;
    for (std::int64_t i = matrix_.row_offsets[row]; i < matrix_.row_offsets[row + 1]; ++i, ++bits) {
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

}  // namespace

int ScatterPacking::tile_columns() const { return scatter::kTileElements / tile_rows; }

std::string ScatterPacking::name() const {
  return fmt::format("scatter_{}_{}x{}{}_r{}", entry == ScatterEntry::kByte ? "byte" : "word", tile_rows,
                     tile_columns(), columns == ScatterColumns::kNatural ? "_natural" : "", min_rounds);
}

std::int64_t scatter_rounds(ScatterEntry entry, std::int64_t words) {
  return entry == ScatterEntry::kWord ? words : words / 3 * 4 + words % 3;
}

Status pack_tiles(const CsrMatrix& matrix, const ScatterPacking& packing, DataType type, PackedWeight& packed) {
  const std::int64_t row_blocks = ceil_div(matrix.rows, packing.tile_rows);
  const std::int64_t column_tiles = ceil_div(matrix.cols, packing.tile_columns());
  const std::int64_t tiles = row_blocks * column_tiles;
  if (tiles >= (std::int64_t{1} << 31))
    return invalid_argument(fmt::format("scatter: {} x {} has too many tiles", matrix.rows, matrix.cols));

  const std::vector<std::uint32_t> first_rows =
      deal_row_parts(matrix.row_offsets, packing.tile_rows / scatter::kPartRows);
  const std::int64_t fixed = scatter::fixed_words(packing);
  const std::vector<std::uint16_t> places = scatter::fixed_places(packing);

  PackedArray entries{"entries", DataType::kUint32, std::vector<std::byte>(tiles * fixed * scatter::kLineBytes)};
  auto* first_words = reinterpret_cast<std::uint32_t*>(entries.bytes.data());
  std::vector<std::int64_t> offsets(tiles + 1);
  std::vector<std::int64_t> rounds(tiles);
  std::vector<std::vector<std::uint32_t>> more_words(row_blocks);  // that have no fixed place, tile by tile
  parallel_for(row_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    RowBlock block(matrix, packing, type, first_rows);
    RoundDealer dealer(packing.entry, packing.min_rounds);
    for (std::int64_t b = begin; b < end; ++b) {
      block.collect(b);
      for (std::int64_t t = 0; t < column_tiles; ++t) {
        const std::int64_t tile = b * column_tiles + t;
        const std::span<const std::uint32_t> words = dealer.deal(block.tile(t));
        rounds[tile] = dealer.rounds();
        offsets[tile + 1] = std::ssize(words) / scatter::kLanes - fixed;
        std::uint32_t* const to = first_words + tile * fixed * scatter::kLanes;
        for (std::size_t i = 0; i < places.size(); ++i) to[places[i]] = words[i];
        more_words[b].insert(more_words[b].end(), words.begin() + std::ssize(places), words.end());
      }
    }
  });
  for (std::int64_t t = 0; t < tiles; ++t) offsets[t + 1] += offsets[t];
  if (offsets.back() >= (std::int64_t{1} << 32))
    return invalid_argument(fmt::format("scatter: {} nonzeros exceed 32-bit tile offsets", matrix.nnz()));

  PackedArray more{"more_entries", DataType::kUint32, std::vector<std::byte>(offsets.back() * scatter::kLineBytes)};
  for (std::int64_t b = 0; b < row_blocks; ++b)
    std::ranges::copy(std::as_bytes(std::span(more_words[b])),
                      more.bytes.begin() + offsets[b * column_tiles] * scatter::kLineBytes);
  packed.arrays.push_back(std::move(entries));
  packed.arrays.push_back(std::move(more));
  packed.arrays.push_back(
      array_of("more_offsets", DataType::kUint32, std::vector<std::uint32_t>(offsets.begin(), offsets.end())));
  packed.arrays.push_back(array_of("row_parts", DataType::kUint32, first_rows));

  packed.facts = scatter::facts_of(std::move(rounds), row_blocks, column_tiles, matrix.nnz());
  return {};
}

}  // namespace sparsmith
