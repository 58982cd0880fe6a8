#include "formats/bsr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/ceil_div.h"
#include "base/half.h"
#include "base/parallel_for.h"
#include "formats/bsr_layout.h"
#include "formats/unpacked_rows.h"

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
        values[block * elements + index_in_block(row - first_row(block_row), column)] = convert(matrix_.values[i]);
      }
    }
  }

  std::uint16_t convert(float value) const {
    const std::uint16_t bits = type_ == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
    return bits == bsr::kNothing ? std::uint16_t{0} : bits;
  }

  const CsrMatrix& matrix_;
  const BsrPacking packing_;
  const DataType type_;
  const std::int64_t rows_of_block_;
  const std::int64_t block_rows_;
  const std::int64_t row_width_;  // in blocks
};

Result<BsrPacking> packing_named(std::string_view name) {
  for (const int tiles : {1, 2, 4}) {
    for (const bool all : {false, true}) {
      const BsrPacking packing{tiles, all};
      if (packing.name() == name) return packing;
    }
  }
  return invalid_input(fmt::format("bsr: no packing is named '{}'", name));
}

// Where each row's blocks begin, and their columns: as stored, or as they follow from the shape.
struct Blocks {
  std::vector<std::uint32_t> firsts;
  std::vector<std::uint32_t> columns;
};

Result<Blocks> listed_blocks(const PackedWeight& packed, std::int64_t block_rows, std::int64_t row_width,
                             std::int64_t stored) {
  const PackedArray* row_blocks = packed.array("row_blocks");
  const PackedArray* block_columns = packed.array("block_columns");
  if (row_blocks == nullptr || row_blocks->type != DataType::kUint32 || row_blocks->size() != block_rows + 1)
    return invalid_input("bsr: array 'row_blocks' is missing or has the wrong size");
  if (block_columns == nullptr || block_columns->type != DataType::kUint32 || block_columns->size() != stored)
    return invalid_input("bsr: array 'block_columns' is missing or has the wrong size");
  const auto firsts = row_blocks->as<std::uint32_t>();
  const auto columns = block_columns->as<std::uint32_t>();
  if (firsts.front() != 0 || firsts.back() != stored || !std::ranges::is_sorted(firsts))
    return invalid_input(fmt::format("bsr: 'row_blocks' does not share out {} blocks", stored));
  for (const std::uint32_t column : columns)
    if (column >= row_width) return invalid_input(fmt::format("bsr: block column {} of {}", column, row_width));
  return Blocks{{firsts.begin(), firsts.end()}, {columns.begin(), columns.end()}};
}

Blocks all_blocks(std::int64_t block_rows, std::int64_t row_width) {
  Blocks blocks{{0}, {}};
  for (std::int64_t row = 0; row < block_rows; ++row) {
    for (std::int64_t column = 0; column < row_width; ++column)
      blocks.columns.push_back(static_cast<std::uint32_t>(column));
    blocks.firsts.push_back(static_cast<std::uint32_t>(blocks.columns.size()));
  }
  return blocks;
}

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

Result<CsrMatrix> unpack_bsr(const PackedWeight& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(const BsrPacking packing, packing_named(packed.packing));
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(packed.rows, packed.cols));
  const std::int64_t rows_of_block = std::int64_t{kTileRows} * packing.tiles;
  const std::int64_t block_rows = ceil_div(packed.rows, rows_of_block);
  const std::int64_t row_width = ceil_div(packed.cols, kBlockColumns);
  const std::int64_t elements = rows_of_block * kBlockColumns;
  const PackedArray* values = packed.array("blocks");
  if (values == nullptr || values->type != packed.value_type || size_of(values->type) != sizeof(std::uint16_t) ||
      values->size() % elements != 0)
    return invalid_input("bsr: array 'blocks' is missing, or is not whole blocks of fp16 or bf16");
  const std::int64_t stored = values->size() / elements;
  if (packing.all && (block_rows == 0 ? stored != 0 : stored % block_rows != 0 || stored / block_rows != row_width))
    return invalid_input(fmt::format("bsr: {} blocks for {} x {}", stored, block_rows, row_width));

  Blocks blocks;
  if (packing.all) {
    blocks = all_blocks(block_rows, row_width);
  } else {
    SPARSMITH_ASSIGN_OR_RETURN(blocks, listed_blocks(packed, block_rows, row_width, stored));
  }
  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows unpacked, UnpackedRows::create(packed, block_rows * rows_of_block));
  const auto bits = values->as<std::uint16_t>();
  for (std::int64_t row = 0; row < packed.rows; ++row) {
    const auto block_row = static_cast<std::size_t>(row / rows_of_block);
    for (std::size_t block = blocks.firsts[block_row]; block < blocks.firsts[block_row + 1]; ++block) {
      for (std::uint32_t i = 0; i < kBlockColumns; ++i) {
        const std::uint16_t value =
            bits[block * static_cast<std::size_t>(elements) + index_in_block(row % rows_of_block, i)];
        if (value != bsr::kNothing) unpacked.add(row, blocks.columns[block] * kBlockColumns + i, value);
      }
    }
  }
  return std::move(unpacked).matrix();
}

}  // namespace sparsmith
