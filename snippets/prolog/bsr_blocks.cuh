// Loads blocks of a bsr weight (formats/bsr_layout.h) from global memory straight into the A operands of mma.m16n8k16.
#pragma once

#include "formats/bsr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kAll: every block of the weight is stored, so that the place of a block follows from its number.
template <class Value_, int kTiles_, bool kAll>
struct BsrBlocks {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTiles_, 1, 2, 4)
  static_assert(sizeof(Value_) == 2, "tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr int kTiles = kTiles_;
  static constexpr int kElements = kTiles * bsr::kTileElements;
  using Operand = Vector<u32, 4>;  // registers of one multiplication

  // A lane's part of a block.
  struct Block {
    int first_column;
    Operand operands[kTiles][2];
  };

  const Value* values;
  const u32* firsts;   // of each row of blocks
  const u32* columns;  // of each block
  int row_width;       // in blocks

  // The blocks of a row of blocks.
  SPARSMITH_DEVICE int begin(int row) const {
    if constexpr (kAll) return row * row_width;
    return static_cast<int>(load_cached(firsts + row));
  }

  // Block `block` of row of blocks `row`.
  SPARSMITH_DEVICE void load(int row, int block, Block& to) const {
    to.first_column = first_column(row, block);
    const Value* from = values + static_cast<i64>(block) * kElements + lane_index() * 8;
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      SPARSMITH_UNROLL for (int q = 0; q < 2; ++q) {
        to.operands[r][q] = load_streaming(reinterpret_cast<const Operand*>(from + (2 * r + q) * bsr::kLanes * 8));
      }
    }
  }

  SPARSMITH_DEVICE int first_column(int row, int block) const {
    if constexpr (kAll) return (block - row * row_width) * bsr::kBlockColumns;
    return static_cast<int>(load_cached(columns + block)) * bsr::kBlockColumns;
  }

  // One element of a block. Returns the bits of bsr::kNothing if the weight does not hold it.
  SPARSMITH_DEVICE Value element(int block, int row, int column) const {
    const int lane = 4 * (row % 8) + column / 8;
    const int value = 4 * (column / 2 % 2) + 2 * (row / 8 % 2) + column % 2;
    const int fragment = row / bsr::kTileRows * 2 + column / 4 % 2;
    return load_cached(values + static_cast<i64>(block) * kElements + (fragment * bsr::kLanes + lane) * 8 + value);
  }
};

}  // namespace sparsmith
