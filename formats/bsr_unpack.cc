#include <fmt/format.h>

#include <array>

#include "base/ceil_div.h"
#include "formats/bsr.h"
#include "formats/bsr_layout.h"
#include "formats/packed_reader.h"

namespace sparsmith {
namespace {

using bsr::kBlockColumns;
using bsr::kTileElements;
using bsr::kTileRows;

// Where the elements of each row of a tile lie.
constexpr auto kPlaces = [] {
  std::array<std::array<std::uint16_t, kBlockColumns>, kTileRows> places{};
  for (int row = 0; row < kTileRows; ++row)
    for (int column = 0; column < kBlockColumns; ++column)
      places[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] =
          static_cast<std::uint16_t>(bsr::element_index(row, column));
  return places;
}();

Result<BsrPacking> packing_named(std::string_view name) {
  for (const int tiles : {1, 2, 4}) {
    for (const bool all : {false, true}) {
      const BsrPacking packing{tiles, all};
      if (packing.name() == name) return packing;
    }
  }
  return invalid_input("a name of no bsr packing");
}

class BsrReader : public PackedReader {
 public:
  BsrReader(const PackedView& view, const BsrPacking& packing, PackedParts& parts)
      : packing_(packing),
        rows_of_block_(std::int64_t{kTileRows} * packing.tiles),
        block_rows_(ceil_div(view.rows, rows_of_block_)),
        row_width_(ceil_div(view.cols, kBlockColumns)) {
    const std::int64_t elements = rows_of_block_ * kBlockColumns;
    parts.expect_fact("block_rows", block_rows_);
    parts.expect_fact("block_columns", row_width_);
    parts.require(view.value_type != DataType::kFloat32, "values are fp16 or bf16");
    constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
    stored_ = parts.fact("blocks", 0, kMost);
    parts.require(!packing.all || stored_ == block_rows_ * row_width_, "some blocks are not stored");
    values_ = parts.array<std::uint16_t>("blocks", view.value_type, stored_ * elements);
    row_blocks_ = parts.array<std::uint32_t>("row_blocks", DataType::kUint32, packing.all ? 0 : block_rows_ + 1);
    block_columns_ = parts.array<std::uint32_t>("block_columns", DataType::kUint32, packing.all ? 0 : stored_);
  }

  Status check_bounds(int threads) override {
    if (packing_.all) return {};
    if (row_blocks_[0] != 0 || row_blocks_[block_rows_] != stored_)
      return invalid_input(fmt::format("row_blocks does not share out {} blocks", stored_));
    return check_ranges(block_rows_, 1024, threads, [&](std::int64_t begin, std::int64_t end) -> Status {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t last = row_blocks_[row + 1];
        if (row_blocks_[row] > last || last > stored_)
          return invalid_input(fmt::format("row_blocks: row {} of blocks ends before it begins", row));
        std::int64_t before = -1;
        for (std::int64_t block = row_blocks_[row]; block < last; ++block) {
          const std::int64_t column = block_columns_[block];
          if (column <= before || column >= row_width_)
            return invalid_input(fmt::format("block_columns: {} of {} follows {}", column, row_width_, before));
          before = column;
        }
      }
      return {};
    });
  }

  std::int64_t units() const override { return block_rows_; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(static_cast<std::uint32_t>(unit), static_cast<std::size_t>(rows_of_block_));
    const std::int64_t first = packing_.all ? unit * row_width_ : row_blocks_[unit];
    const std::int64_t end = packing_.all ? first + row_width_ : row_blocks_[unit + 1];
    for (std::int64_t block = first; block < end; ++block) {
      const std::int64_t column = packing_.all ? block - first : block_columns_[block];
      std::int64_t nonzeros = 0;
      for (std::int64_t tile = 0; tile < packing_.tiles; ++tile)
        nonzeros += read_tile(block * packing_.tiles + tile, tile * kTileRows,
                              static_cast<std::uint32_t>(column * kBlockColumns), rows);
      if (nonzeros == 0 && !packing_.all) return invalid_input(fmt::format("block {} holds nothing", block));
    }
    return rows.store_from(unit * rows_of_block_);
  }

 private:
  // Returns the number of nonzeros.
  std::int64_t read_tile(std::int64_t tile, std::int64_t first_row, std::uint32_t first_column, UnitRows& rows) const {
    const Elements<std::uint16_t> values(values_.bytes().subspan(static_cast<std::size_t>(tile) * kTileElements * 2));
    std::int64_t nonzeros = 0;
    for (std::size_t row = 0; row < kTileRows; ++row) {
      UnitRows::Entry* const begin = rows.room(static_cast<std::size_t>(first_row) + row, kBlockColumns);
      UnitRows::Entry* to = begin;
      for (std::uint32_t column = 0; column < kBlockColumns; ++column) {
        const std::uint16_t bits = values[kPlaces[row][column]];
        *to = {first_column + column, bits};
        to += bits != bsr::kNothing ? 1 : 0;
      }
      rows.take(static_cast<std::size_t>(first_row) + row, to);
      nonzeros += to - begin;
    }
    return nonzeros;
  }

  const BsrPacking packing_;
  const std::int64_t rows_of_block_;
  const std::int64_t block_rows_;
  const std::int64_t row_width_;  // in blocks
  std::int64_t stored_ = 0;       // blocks
  Elements<std::uint16_t> values_;
  Elements<std::uint32_t> row_blocks_, block_columns_;
};

}  // namespace

PackedFormat bsr_format() { return format_of<BsrReader, packing_named, pack_bsr, 1>("bsr", {"blocks"}); }

}  // namespace sparsmith
