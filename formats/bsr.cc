#include "formats/bsr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/bsr_layout.h"
#include "formats/packed_reader.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

using bsr::kBlockColumns;
using bsr::kTileElements;
using bsr::kTileRows;

// How a weight is cut into blocks.
struct Grid {
  Grid(const BsrPacking& packing, std::int64_t weight_rows, std::int64_t weight_cols)
      : tile_rows(std::int64_t{kTileRows} * packing.tiles),
        rows(ceil_div(weight_rows, tile_rows)),
        columns(ceil_div(weight_cols, kBlockColumns)),
        elements(tile_rows * kBlockColumns) {}

  std::int64_t tile_rows;  // of a block
  std::int64_t rows;       // of blocks
  std::int64_t columns;
  std::int64_t elements;  // of a block
};

// Where the elements of each row of a tile lie.
constexpr auto kPlaces = [] {
  std::array<std::array<std::uint16_t, kBlockColumns>, kTileRows> places{};
  for (int row = 0; row < kTileRows; ++row)
    for (int column = 0; column < kBlockColumns; ++column)
      places[row][column] = static_cast<std::uint16_t>(bsr::element_index(row, column));
  return places;
}();

std::optional<BsrPacking> packing_named(std::string_view name) {
  for (const int tiles : {1, 2, 4})
    for (const bool all : {false, true})
      if (const BsrPacking packing{tiles, all}; packing.name() == name) return packing;
  return std::nullopt;
}

Status check(const BsrPacking& packing, std::int64_t rows, std::int64_t cols, DataType /*type*/) {
  const Grid grid(packing, rows, cols);
  if (grid.rows * grid.columns < std::int64_t{1} << 31) return {};
  return invalid_argument(fmt::format("bsr: {} x {} exceeds 32-bit indices", rows, cols));
}

// The columns of the blocks of a row of blocks, in ascending order.
std::vector<std::uint32_t> columns_of(const CsrMatrix& matrix, std::int64_t first_row, std::int64_t end_row) {
  std::vector<std::uint32_t> columns;
  for (std::int64_t i = matrix.row_offsets[first_row]; i < matrix.row_offsets[end_row]; ++i) {
    const std::uint32_t column = matrix.column_indices[i] / kBlockColumns;
    if (columns.empty() || columns.back() != column) columns.push_back(column);
  }
  std::ranges::sort(columns);
  columns.erase(std::ranges::unique(columns).begin(), columns.end());
  return columns;
}

Status pack_weight(const CsrMatrix& matrix, const BsrPacking& packing, DataType type, PackedWeight& packed) {
  const Grid grid(packing, matrix.rows, matrix.cols);
  const auto first_row = [&](std::int64_t row) { return std::min(matrix.rows, row * grid.tile_rows); };
  std::vector<std::vector<std::uint32_t>> columns(grid.rows);  // of a row's blocks
  const auto find_columns = [&](std::int64_t row) {
    columns[row] = columns_of(matrix, first_row(row), first_row(row + 1));
    if (!packing.all) return;
    columns[row].resize(grid.columns);
    std::iota(columns[row].begin(), columns[row].end(), 0U);
  };
  parallel_each(grid.rows, find_columns, 4);
  std::vector<std::uint32_t> firsts{0};
  std::vector<std::uint32_t> block_columns;
  for (const std::vector<std::uint32_t>& row : columns) {
    firsts.push_back(firsts.back() + static_cast<std::uint32_t>(row.size()));
    if (!packing.all) block_columns.insert(block_columns.end(), row.begin(), row.end());
  }
  packed.facts = {{"block_rows", grid.rows}, {"block_columns", grid.columns}, {"blocks", firsts.back()}};

  PackedArray blocks{"blocks", type, std::vector<std::byte>(firsts.back() * grid.elements * sizeof(std::uint16_t))};
  const auto fill_row = [&](std::int64_t block_row) {
    auto* const values = reinterpret_cast<std::uint16_t*>(blocks.bytes.data()) + firsts[block_row] * grid.elements;
    std::fill_n(values, std::ssize(columns[block_row]) * grid.elements, bsr::kNothing);
    for (std::int64_t row = first_row(block_row); row < first_row(block_row + 1); ++row) {
      const std::int64_t in_block = row - first_row(block_row);
      std::int64_t block = 0;  // columns ascend in a row, too
      for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
        const std::uint32_t column = matrix.column_indices[i];
        while (columns[block_row][block] < column / kBlockColumns) ++block;
        values[block * grid.elements + in_block / kTileRows * kTileElements +
               kPlaces[in_block % kTileRows][column % kBlockColumns]] = half_bits(matrix.values[i], type);
      }
    }
  };
  parallel_each(grid.rows, fill_row, 4);
  if (packing.all) firsts.clear();
  packed.arrays.push_back(std::move(blocks));
  packed.arrays.push_back(array_of("row_blocks", DataType::kUint32, firsts));
  packed.arrays.push_back(array_of("block_columns", DataType::kUint32, block_columns));
  return {};
}

class BsrReader : public PackedReader {
 public:
  BsrReader(const PackedView& view, const BsrPacking& packing, PackedParts& parts)
      : packing_(packing), grid_(packing, view.rows, view.cols) {
    parts.expect_fact("block_rows", grid_.rows);
    parts.expect_fact("block_columns", grid_.columns);
    stored_ = parts.fact("blocks", 0, (std::int64_t{1} << 31) - 1);
    parts.require(!packing.all || stored_ == grid_.rows * grid_.columns, "some blocks are not stored");
    values_ = parts.array<std::uint16_t>("blocks", view.value_type, stored_ * grid_.elements);
    row_blocks_ = parts.array<std::uint32_t>("row_blocks", DataType::kUint32, packing.all ? 0 : grid_.rows + 1);
    block_columns_ = parts.array<std::uint32_t>("block_columns", DataType::kUint32, packing.all ? 0 : stored_);
  }

  Status check_bounds(int threads) override {
    if (packing_.all) return {};
    if (row_blocks_[0] != 0 || row_blocks_[grid_.rows] != stored_)
      return invalid_input(fmt::format("row_blocks does not share out {} blocks", stored_));
    return check_each(grid_.rows, 1024, threads, [&](std::int64_t row) -> Status {
      const std::int64_t last = row_blocks_[row + 1];
      if (row_blocks_[row] > last || last > stored_)
        return invalid_input(fmt::format("row_blocks: row {} of blocks ends before it begins", row));
      std::int64_t before = -1;
      for (std::int64_t block = row_blocks_[row]; block < last; ++block) {
        const std::int64_t column = block_columns_[block];
        if (column <= before || column >= grid_.columns)
          return invalid_input(fmt::format("block_columns: {} of {} follows {}", column, grid_.columns, before));
        before = column;
      }
      return {};
    });
  }

  std::int64_t units() const override { return grid_.rows; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(unit, grid_.tile_rows);
    const std::int64_t first = packing_.all ? unit * grid_.columns : row_blocks_[unit];
    const std::int64_t end = packing_.all ? first + grid_.columns : row_blocks_[unit + 1];
    for (std::int64_t block = first; block < end; ++block) {
      const std::int64_t column = packing_.all ? block - first : block_columns_[block];
      std::int64_t nonzeros = 0;
      for (std::int64_t tile = 0; tile < packing_.tiles; ++tile)
        nonzeros += read_tile(block * packing_.tiles + tile, tile * kTileRows,
                              static_cast<std::uint32_t>(column * kBlockColumns), rows);
      if (nonzeros == 0 && !packing_.all) return invalid_input(fmt::format("block {} holds nothing", block));
    }
    return rows.store_from(unit * grid_.tile_rows);
  }

 private:
  // Returns the number of nonzeros.
  std::int64_t read_tile(std::int64_t tile, std::int64_t first_row, std::uint32_t first_column, UnitRows& rows) const {
    const Elements<std::uint16_t> values(values_.bytes().subspan(tile * kTileElements * 2));
    std::int64_t nonzeros = 0;
    for (std::size_t row = 0; row < kTileRows; ++row) {
      UnitRows::Entry* const begin = rows.room(first_row + row, kBlockColumns);
      UnitRows::Entry* to = begin;
      for (std::uint32_t column = 0; column < kBlockColumns; ++column) {
        const std::uint16_t bits = values[kPlaces[row][column]];
        *to = {first_column + column, bits};
        to += bits != bsr::kNothing ? 1 : 0;
      }
      rows.take(first_row + row, to);
      nonzeros += to - begin;
    }
    return nonzeros;
  }

  const BsrPacking packing_;
  const Grid grid_;
  std::int64_t stored_ = 0;  // blocks
  Elements<std::uint16_t> values_;
  Elements<std::uint32_t> row_blocks_, block_columns_;
};

}  // namespace

std::string BsrPacking::name() const { return fmt::format("bsr_r{}_{}", tiles, all ? "all" : "listed"); }

PackedFormat bsr_format() {
  return format_of<BsrReader, packing_named, pack_weight, 1, check>(
      {.name = "bsr", .value_arrays = {"blocks"}, .halves_only = true});
}

}  // namespace sparsmith
