#include "formats/bsr.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/bsr_layout.h"
#include "formats/packed_reader.h"
#include "formats/row_pairs.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

// How a weight is cut into blocks, and where the elements of a block lie: [row][column].
struct Grid {
  Grid(const BsrPacking& packing, std::int64_t weight_rows, std::int64_t weight_cols)
      : block_rows(packing.rows()),
        block_columns(packing.columns()),
        rows(ceil_div(weight_rows, block_rows)),
        columns(ceil_div(weight_cols, block_columns)),
        elements(block_rows * block_columns) {
    for (int row = 0; row < block_rows; ++row) {
      for (int column = 0; column < block_columns; ++column) {
        const int place = packing.line > 0 ? bsr::line_index(packing.line, row, column)
                                           : row / bsr::kTileRows * bsr::kTileElements +
                                                 bsr::element_index(row % bsr::kTileRows, column);
        places.push_back(static_cast<std::uint16_t>(place));
      }
    }
  }

  std::int64_t block_rows;     // of a block
  std::int64_t block_columns;  // of a block
  std::int64_t rows;           // of blocks
  std::int64_t columns;
  std::int64_t elements;  // of a block
  std::vector<std::uint16_t> places;
};

std::optional<BsrPacking> packing_named(std::string_view name) {
  for (const int line : {32, 64})
    if (const BsrPacking packing{.tiles = bsr::kLineRows / 16, .line = line}; packing.name() == name) return packing;
  for (const int tiles : {1, 2, 4})
    for (const bool all : {false, true})
      if (const BsrPacking packing{tiles, all}; packing.name() == name) return packing;
  return std::nullopt;
}

int version_of(const BsrPacking& packing) { return packing.halves() ? 2 : 1; }

Status check(const BsrPacking& packing, std::int64_t rows, std::int64_t cols, DataType /*type*/) {
  const Grid grid(packing, rows, cols);
  if (grid.rows * grid.columns < std::int64_t{1} << 31) return {};
  return invalid_argument(fmt::format("bsr: {} x {} exceeds 32-bit indices", rows, cols));
}

Status pack_weight(const CsrMatrix& matrix, const BsrPacking& packing, DataType type, PackedWeight& packed) {
  const Grid grid(packing, matrix.rows, matrix.cols);
  std::vector<std::uint32_t> halves;
  if (packing.halves()) halves = halves_in_pairs(matrix, grid.block_columns);
  const auto rows_of = [&](std::int64_t row) { return weight_rows(halves, row * grid.block_rows, grid.block_rows); };
  BlockColumns columns(grid.rows);  // of a row's blocks
  const auto find_columns = [&](std::int64_t row) {
    columns[row] = block_columns_of(matrix, rows_of(row), grid.block_columns);
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
    std::int64_t in_block = -1;
    for (const std::int64_t row : rows_of(block_row)) {
      ++in_block;
      if (row >= matrix.rows) continue;
      std::int64_t block = 0;  // columns ascend in a row, too
      for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
        const std::uint32_t column = matrix.column_indices[i];
        while (columns[block_row][block] < column / grid.block_columns) ++block;
        values[block * grid.elements + grid.places[in_block * grid.block_columns + column % grid.block_columns]] =
            half_bits(matrix.values[i], type);
      }
    }
  };
  parallel_each(grid.rows, fill_row, 4);
  if (packing.all) firsts.clear();
  packed.arrays.push_back(std::move(blocks));
  packed.arrays.push_back(array_of("row_blocks", DataType::kUint32, firsts));
  packed.arrays.push_back(array_of("block_columns", DataType::kUint32, block_columns));
  if (packing.line > 0)
    packed.arrays.push_back(array_of("row_order", DataType::kUint32, order_in_pairs(columns, grid.columns)));
  if (packing.halves()) packed.arrays.push_back(array_of("half_rows", DataType::kUint32, halves));
  return {};
}

class BsrReader : public PackedReader {
 public:
  BsrReader(const PackedView& view, const BsrPacking& packing, PackedParts& parts)
      : packing_(packing), grid_(packing, view.rows, view.cols), spare_(view.spare) {
    parts.expect_fact("block_rows", grid_.rows);
    parts.expect_fact("block_columns", grid_.columns);
    stored_ = parts.fact("blocks", 0, (std::int64_t{1} << 31) - 1);
    parts.require(!packing.all || stored_ == grid_.rows * grid_.columns, "some blocks are not stored");
    values_ = parts.array<std::uint16_t>("blocks", view.value_type, stored_ * grid_.elements);
    row_blocks_ = parts.array<std::uint32_t>("row_blocks", DataType::kUint32, packing.all ? 0 : grid_.rows + 1);
    block_columns_ = parts.array<std::uint32_t>("block_columns", DataType::kUint32, packing.all ? 0 : stored_);
    if (packing.line > 0) row_order_ = parts.array<std::uint32_t>("row_order", DataType::kUint32, grid_.rows);
    if (packing.halves()) half_rows_ = parts.array<std::uint32_t>("half_rows", DataType::kUint32, 2 * grid_.rows);
  }

  Status check_bounds(int threads) override {
    if (packing_.all) return {};
    const std::int64_t used = row_blocks_[grid_.rows];
    if (row_blocks_[0] != 0 || (spare_ ? used > stored_ : used != stored_))
      return invalid_input(fmt::format("row_blocks does not share out {} blocks", stored_));
    SPARSMITH_RETURN_IF_ERROR(read_order(row_order_, "row_order").status());
    SPARSMITH_ASSIGN_OR_RETURN(halves_, read_order(half_rows_, "half_rows"));
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
    rows.begin(unit, grid_.block_rows);
    const std::int64_t first = packing_.all ? unit * grid_.columns : row_blocks_[unit];
    const std::int64_t end = packing_.all ? first + grid_.columns : row_blocks_[unit + 1];
    for (std::int64_t block = first; block < end; ++block) {
      const std::int64_t column = packing_.all ? block - first : block_columns_[block];
      const std::int64_t nonzeros = read_block(block, static_cast<std::uint32_t>(column * grid_.block_columns), rows);
      if (nonzeros == 0 && !packing_.all) return invalid_input(fmt::format("block {} holds nothing", block));
    }
    return rows.store(weight_rows(halves_, unit * grid_.block_rows, grid_.block_rows));
  }

 private:
  // Returns the number of nonzeros.
  std::int64_t read_block(std::int64_t block, std::uint32_t first_column, UnitRows& rows) const {
    const Elements<std::uint16_t> values(values_.bytes().subspan(block * grid_.elements * 2));
    std::int64_t nonzeros = 0;
    for (std::int64_t row = 0; row < grid_.block_rows; ++row) {
      const std::uint16_t* const places = grid_.places.data() + row * grid_.block_columns;
      UnitRows::Entry* const begin = rows.room(row, grid_.block_columns);
      UnitRows::Entry* to = begin;
      for (std::uint32_t column = 0; column < grid_.block_columns; ++column) {
        const std::uint16_t bits = values[places[column]];
        *to = {first_column + column, bits};
        to += bits != bsr::kNothing ? 1 : 0;
      }
      rows.take(row, to);
      nonzeros += to - begin;
    }
    return nonzeros;
  }

  const BsrPacking packing_;
  const Grid grid_;
  const bool spare_;
  std::int64_t stored_ = 0;  // blocks
  Elements<std::uint16_t> values_;
  Elements<std::uint32_t> row_blocks_, block_columns_, row_order_, half_rows_;
  std::vector<std::uint32_t> halves_;
};

}  // namespace

std::string BsrPacking::name() const {
  if (line > 0) return fmt::format("bsr_lines{}", line);
  return fmt::format("bsr_r{}_{}", tiles, all ? "all" : "listed");
}

PackedFormat bsr_format() {
  return format_of<BsrReader, packing_named, pack_weight, version_of, check>(
      {.name = "bsr", .value_arrays = {"blocks"}, .values_alone = true, .halves_only = true, .leaves_rest = true});
}

}  // namespace sparsmith
