#include "formats/scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "base/parallel_for.h"
#include "formats/scatter_layout.h"
#include "formats/scatter_rounds.h"
#include "formats/unpacked_rows.h"

namespace sparsmith {
namespace {

using scatter::Entry;
using scatter::RoundDealer;

// Byte offset of an element in its tile.
std::uint32_t tile_offset(std::uint32_t row, std::uint32_t column, std::uint32_t tile_columns) {
  const std::uint32_t chunk = column / 32 * 4 + column / 4 % 2 * 2 + column / 2 % 2;
  const std::uint32_t element = column % 32 / 8 * 2 + column % 2;
  return row * tile_columns * 2 + (chunk ^ row % 8) * 16 + element * 2;
}

// Row and column in the tile of a byte offset: the inverse.
std::pair<std::uint32_t, std::uint32_t> tile_element(std::uint32_t offset, std::uint32_t tile_columns) {
  const std::uint32_t row = offset / (tile_columns * 2);
  const std::uint32_t chunk = offset % (tile_columns * 2) / 16 ^ row % 8;
  const std::uint32_t element = offset % 16 / 2;
  return {row, chunk / 4 * 32 + element / 2 * 8 + chunk / 2 % 2 * 4 + chunk % 2 * 2 + element % 2};
}

// The entries of a row block, tile by tile, each ordered by line.
class RowBlock {
 public:
  RowBlock(const CsrMatrix& matrix, const ScatterPacking& packing, DataType type)
      : matrix_(matrix), packing_(packing), type_(type) {
    offsets_.resize(static_cast<std::size_t>((matrix.cols + packing.tile_columns() - 1) / packing.tile_columns()) + 1);
  }

  void collect(std::int64_t block) {
    const auto width = static_cast<std::uint32_t>(packing_.tile_columns());
    const std::int64_t first_row = block * packing_.tile_rows;
    const std::int64_t end_row = std::min(matrix_.rows, first_row + packing_.tile_rows);
    std::fill(offsets_.begin(), offsets_.end(), 0U);
    for (std::int64_t i = matrix_.row_offsets[first_row]; i < matrix_.row_offsets[end_row]; ++i)
      if (stored(i)) ++offsets_[matrix_.column_indices[i] / width + 1];
    for (std::size_t t = 1; t < offsets_.size(); ++t) offsets_[t] += offsets_[t - 1];
    entries_.resize(offsets_.back());
    next_.assign(offsets_.begin(), offsets_.end() - 1);
    for (std::int64_t row = first_row; row < end_row; ++row) {
      for (std::int64_t i = matrix_.row_offsets[row]; i < matrix_.row_offsets[row + 1]; ++i) {
        if (!stored(i)) continue;
        const std::uint32_t column = matrix_.column_indices[i];
        const std::uint32_t offset = tile_offset(static_cast<std::uint32_t>(row - first_row), column % width, width);
        entries_[next_[column / width]++] = offset << 16 | bits(i);
      }
    }
  }

  std::span<const Entry> tile(std::int64_t t) const {
    return {entries_.data() + offsets_[t], offsets_[t + 1] - offsets_[t]};
  }

 private:
  std::uint32_t bits(std::int64_t i) const {
    const float value = matrix_.values[i];
    return type_ == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
  }
  bool stored(std::int64_t i) const { return (bits(i) & 0x7FFFU) != 0; }

  const CsrMatrix& matrix_;
  const ScatterPacking& packing_;
  DataType type_;
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

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The value below which `share` of `sorted` lies; 0 when there is none.
std::int64_t quantile(const std::vector<std::uint32_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

int ScatterPacking::tile_columns() const { return scatter::kTileElements / tile_rows; }

std::string ScatterPacking::name() const {
  return fmt::format("scatter_{}_{}x{}_r{}", entry == ScatterEntry::kByte ? "byte" : "word", tile_rows, tile_columns(),
                     min_rounds);
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

  // Row blocks are independent of one another: first the sizes of their tiles, then the tiles.
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(tiles) + 1, 0);
  std::vector<std::uint32_t> rounds(static_cast<std::size_t>(tiles), 0);
  parallel_for(row_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    RowBlock block(matrix, packing, type);
    RoundDealer dealer(packing.entry, packing.min_rounds);
    for (std::int64_t b = begin; b < end; ++b) {
      block.collect(b);
      for (std::int64_t t = 0; t < column_tiles; ++t) {
        offsets[b * column_tiles + t + 1] = dealer.words(block.tile(t));
        rounds[b * column_tiles + t] = static_cast<std::uint32_t>(dealer.rounds());
      }
    }
  });
  for (std::int64_t t = 0; t < tiles; ++t) offsets[t + 1] += offsets[t];
  if (offsets.back() >= (std::int64_t{1} << 32))
    return invalid_argument(fmt::format("scatter: {} nonzeros exceed 32-bit tile offsets", matrix.nnz()));

  PackedWeight packed;
  packed.packing = packing.name();
  packed.rows = matrix.rows;
  packed.cols = matrix.cols;
  packed.nnz = matrix.nnz();
  packed.value_type = type;
  PackedArray entries{"entries", DataType::kUint32, std::vector<std::byte>(offsets.back() * scatter::kLineBytes)};
  auto* words = reinterpret_cast<std::uint32_t*>(entries.bytes.data());
  std::vector<std::int64_t> stored(static_cast<std::size_t>(row_blocks), 0);
  parallel_for(row_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    RowBlock block(matrix, packing, type);
    RoundDealer dealer(packing.entry, packing.min_rounds);
    for (std::int64_t b = begin; b < end; ++b) {
      block.collect(b);
      for (std::int64_t t = 0; t < column_tiles; ++t) {
        dealer.write(block.tile(t), words + offsets[b * column_tiles + t] * scatter::kLanes);
        stored[b] += static_cast<std::int64_t>(block.tile(t).size());
      }
    }
  });
  PackedArray tile_offsets{"tile_offsets", DataType::kUint32, std::vector<std::byte>((tiles + 1) * 4)};
  std::transform(offsets.begin(), offsets.end(), reinterpret_cast<std::uint32_t*>(tile_offsets.bytes.data()),
                 [](std::int64_t offset) { return static_cast<std::uint32_t>(offset); });
  packed.arrays.push_back(std::move(entries));
  packed.arrays.push_back(std::move(tile_offsets));

  std::int64_t all_rounds = 0;
  for (const std::uint32_t each : rounds) all_rounds += each;
  std::int64_t all_stored = 0;
  for (const std::int64_t each : stored) all_stored += each;
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
        if (const ScatterPacking packing{entry, tile_rows, min_rounds}; packing.name() == name) return packing;
  return invalid_input(fmt::format("scatter: \"{}\" is no packing of it", name));
}

// An entry of a tile's words: lane `lane`, round `round`.
Entry entry_at(ScatterEntry form, const std::uint32_t* words, std::int64_t round, std::uint32_t lane) {
  if (form == ScatterEntry::kWord) return words[round * 32 + lane];
  const std::uint32_t* group = words + round / 4 * 96 + lane;
  const std::uint32_t position = group[0] >> (8 * (round % 4)) & 0xFFU;
  const std::uint32_t value = group[32 + round % 4 / 2 * 32] >> (16 * (round % 2)) & 0xFFFFU;
  return (position / 4 * 128 + position % 4 * 2 + lane * 4) << 16 | value;
}

// The nonzeros of a tile, by position; kInvalidInput when one lies outside.
Status read_tile(const ScatterPacking& packing, const std::uint32_t* words, std::int64_t word_count,
                 std::vector<std::uint16_t>& tile) {
  tile.assign(scatter::kTileElements, 0);
  const std::int64_t rounds = scatter_rounds(packing.entry, word_count);
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
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
  const PackedArray* tile_offsets = packed.array("tile_offsets");
  const std::int64_t column_tiles = ceil_div(packed.cols, packing.tile_columns());
  const std::int64_t tiles = ceil_div(packed.rows, packing.tile_rows) * column_tiles;
  if (entries == nullptr || entries->bytes.size() % scatter::kLineBytes != 0) return missing("entries");
  if (tile_offsets == nullptr || tile_offsets->bytes.size() != static_cast<std::size_t>(tiles + 1) * 4)
    return missing("tile_offsets");
  const auto offsets = tile_offsets->as<std::uint32_t>();
  if (offsets[0] != 0 || offsets[tiles] * std::size_t{scatter::kLineBytes} != entries->bytes.size())
    return missing("tile_offsets");

  const auto tile_columns = static_cast<std::uint32_t>(packing.tile_columns());
  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows unpacked, UnpackedRows::create(packed, tiles * packing.tile_rows));
  std::vector<std::uint16_t> tile;
  for (std::int64_t t = 0; t < tiles; ++t) {
    if (offsets[t + 1] < offsets[t] || offsets[t + 1] > offsets[tiles])
      return invalid_input(fmt::format("scatter: tile {} ends before it begins, or after the last one", t));
    const std::int64_t words = offsets[t + 1] - offsets[t];
    if (words == 0) continue;
    if (packing.entry == ScatterEntry::kByte && words % 3 == 1)
      return invalid_input(fmt::format("scatter: tile {} has {} words a lane", t, words));
    SPARSMITH_RETURN_IF_ERROR(
        read_tile(packing, entries->as<std::uint32_t>().data() + offsets[t] * std::size_t{32}, words, tile));
    for (std::uint32_t i = 0; i < scatter::kTileElements; ++i) {
      if (tile[i] == 0) continue;
      const auto [row_in_tile, column_in_tile] = tile_element(i * 2, tile_columns);
      const std::int64_t row = t / column_tiles * packing.tile_rows + row_in_tile;
      const std::int64_t column = t % column_tiles * tile_columns + column_in_tile;
      if (row >= packed.rows || column >= packed.cols)
        return invalid_input(
            fmt::format("scatter: an entry at row {}, column {} of {} x {}", row, column, packed.rows, packed.cols));
      unpacked.add(row, static_cast<std::uint32_t>(column), tile[i]);
    }
  }
  return std::move(unpacked).matrix();
}

}  // namespace sparsmith
