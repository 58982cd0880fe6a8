#include "formats/bsr.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/bsr_layout.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

using bsr::kBlockColumns;
using bsr::kTileElements;
using bsr::kTileRows;

// Where an element lies in its block of rows and columns.
std::size_t index_in_block(std::int64_t row, std::uint32_t column) {
  const auto tile = static_cast<std::size_t>(row / kTileRows);
  return tile * kTileElements + static_cast<std::size_t>(bsr::element_index(static_cast<int>(row % kTileRows),
                                                                            static_cast<int>(column % kBlockColumns)));
}

class Packer {
 public:
  Packer(const CsrMatrix& matrix, const BsrPacking& packing, DataType type)
      : matrix_(matrix),
        packing_(packing),
        type_(type),
        rows_of_block_(std::int64_t{kTileRows} * packing.tiles),
        block_rows_(ceil_div(matrix.rows, rows_of_block_)),
        row_width_(ceil_div(matrix.cols, kBlockColumns)) {}

  PackedWeight pack() const {
    std::vector<std::vector<std::uint32_t>> columns(static_cast<std::size_t>(block_rows_));  // of a row's blocks
    parallel_for(block_rows_, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) columns[static_cast<std::size_t>(row)] = columns_of(row);
    });
    std::vector<std::uint32_t> firsts(columns.size() + 1);
    for (std::size_t row = 0; row < columns.size(); ++row)
      firsts[row + 1] = firsts[row] + static_cast<std::uint32_t>(columns[row].size());

    const std::size_t elements = static_cast<std::size_t>(packing_.tiles) * kTileElements;  // of a block
    PackedArray blocks{"blocks", type_, std::vector<std::byte>(firsts.back() * elements * sizeof(std::uint16_t))};
    auto* values = reinterpret_cast<std::uint16_t*>(blocks.bytes.data());
    parallel_for(block_rows_, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const auto at = static_cast<std::size_t>(row);
        fill(row, columns[at], {values + firsts[at] * elements, columns[at].size() * elements});
      }
    });

    PackedWeight packed;
    packed.packing = packing_.name();
    packed.rows = matrix_.rows;
    packed.cols = matrix_.cols;
    packed.nnz = matrix_.nnz();
    packed.value_type = type_;
    packed.facts = {{"block_rows", block_rows_}, {"block_columns", row_width_}, {"blocks", firsts.back()}};
    PackedArray row_blocks{"row_blocks", DataType::kUint32, {}};
    PackedArray block_columns{"block_columns", DataType::kUint32, {}};
    if (!packing_.all) {
      const auto append = [](PackedArray& array, const std::vector<std::uint32_t>& words) {
        const auto bytes = std::as_bytes(std::span(words));
        array.bytes.insert(array.bytes.end(), bytes.begin(), bytes.end());
      };
      append(row_blocks, firsts);
      for (const auto& row : columns) append(block_columns, row);
    }
    packed.arrays.push_back(std::move(blocks));
    packed.arrays.push_back(std::move(row_blocks));
    packed.arrays.push_back(std::move(block_columns));
    return packed;
  }

 private:
  std::int64_t first_row(std::int64_t block_row) const { return block_row * rows_of_block_; }
  std::int64_t end_row(std::int64_t block_row) const { return std::min(matrix_.rows, first_row(block_row + 1)); }

  // The columns of the blocks to store, in ascending order.
  std::vector<std::uint32_t> columns_of(std::int64_t block_row) const {
    std::vector<std::uint32_t> columns;
    if (packing_.all) {
      for (std::int64_t column = 0; column < row_width_; ++column)
        columns.push_back(static_cast<std::uint32_t>(column));
      return columns;
    }
    for (std::int64_t i = matrix_.row_offsets[first_row(block_row)]; i < matrix_.row_offsets[end_row(block_row)]; ++i) {
      const std::uint32_t column = matrix_.column_indices[i] / kBlockColumns;
      if (columns.empty() || columns.back() != column) columns.push_back(column);
    }
    std::ranges::sort(columns);
    columns.erase(std::ranges::unique(columns).begin(), columns.end());
    return columns;
  }

  void fill(std::int64_t block_row, const std::vector<std::uint32_t>& columns, std::span<std::uint16_t> values) const {
    std::ranges::fill(values, bsr::kNothing);
    const std::size_t elements = static_cast<std::size_t>(packing_.tiles) * kTileElements;
    for (std::int64_t row = first_row(block_row); row < end_row(block_row); ++row) {
      std::size_t block = 0;  // columns ascend in a row, too
      for (std::int64_t i = matrix_.row_offsets[row]; i < matrix_.row_offsets[row + 1]; ++i) {
        const std::uint32_t column = matrix_.column_indices[i];
        while (columns[block] < column / kBlockColumns) ++block;
        values[block * elements + index_in_block(row - first_row(block_row), column)] =
            half_bits(matrix_.values[i], type_);
      }
    }
  }

  const CsrMatrix& matrix_;
  const BsrPacking packing_;
  const DataType type_;
  const std::int64_t rows_of_block_;
  const std::int64_t block_rows_;
  const std::int64_t row_width_;  // in blocks
};

}  // namespace

std::string BsrPacking::name() const { return fmt::format("bsr_r{}_{}", tiles, all ? "all" : "listed"); }

Result<PackedWeight> pack_bsr(const CsrMatrix& matrix, const BsrPacking& packing, DataType type) {
  if (packing.tiles != 1 && packing.tiles != 2 && packing.tiles != 4)
    return invalid_argument(fmt::format("bsr: a block is 1, 2 or 4 tiles, not {}", packing.tiles));
  if (type != DataType::kFloat16 && type != DataType::kBFloat16)
    return invalid_argument(fmt::format("bsr: values are fp16 or bf16, not {}", short_name(type)));
  const std::int64_t block_rows = ceil_div(matrix.rows, std::int64_t{kTileRows} * packing.tiles);
  const std::int64_t row_width = ceil_div(matrix.cols, kBlockColumns);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (matrix.rows >= kMost || matrix.cols >= kMost || (block_rows > 0 && row_width >= kMost / block_rows))
    return invalid_argument(fmt::format("bsr: {} x {} exceeds 32-bit indices", matrix.rows, matrix.cols));
  return Packer(matrix, packing, type).pack();
}

}  // namespace sparsmith
