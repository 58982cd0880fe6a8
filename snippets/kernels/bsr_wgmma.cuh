// Y = W X for a bsr weight in lines (formats/bsr_layout.h) and many tokens: warpgroups multiply its blocks on the
// tensor cores of sm_90, two more warps bring blocks of W and of X.
//
// Rows of blocks of 32 columns have two halves of 32 rows each, from anywhere in the weight.
//
// A block of threads owns one or two rows of blocks, a warpgroup each, by kTokens tokens. A stage is a column of blocks
// that one of them has: X comes as boxes (device/tensor_copies.cuh), once for both, and the blocks of W as arrays.
// Arrival barriers hand stages over. Blocks of threads are persistent: while the outputs of some rows are stored, the
// stages of the next ones are filled. Blocks are multiplied in order: two runs give equal bits.
//
// Tensor cores also multiply elements that the weight does not hold, and 0 * Inf is NaN. So a warp whose sums are not
// finite adds up the products of the elements that the weight holds.
#pragma once

#include "formats/bsr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/warp_outputs.cuh"
#include "snippets/prolog/fragment_input.cuh"
#include "snippets/prolog/stage_cursor.cuh"
#include "snippets/reduction/tile_sums.cuh"

namespace sparsmith {

namespace bsr {

// The arrays of a packed weight in lines.
template <class Value, int kColumns>
struct LinesWeight {
  static constexpr int kElements = kLineRows * kColumns;  // of a block
  static constexpr int kBlockBytes = 2 * kElements;

  const Value* values;
  const u32* row_blocks;
  const u32* columns;
  const u32* row_order;
  const u32* half_rows;  // where rows of blocks have halves
  int rows;
  int block_rows;

  // A row of blocks.
  struct Row {
    int number;
    int begin;
    int end;
  };
  // Row `place` of the order; empty behind the last one.
  SPARSMITH_DEVICE Row row(int place) const {
    if (place >= block_rows) return {block_rows, 0, 0};
    const int number = static_cast<int>(load_cached(row_order + place));
    return {number, static_cast<int>(load_cached(row_blocks + number)),
            static_cast<int>(load_cached(row_blocks + number + 1))};
  }
  // The first row of the weight in a half of a row of blocks.
  SPARSMITH_DEVICE u32 half_row(int number, int half) const {
    const u32 place = number * 2 + half;
    return (kColumns == kHalfRows ? load_cached(half_rows + place) : place) * kHalfRows;
  }
  // An element of a block. Returns the bits of kNothing if the weight does not hold it.
  SPARSMITH_DEVICE Value element(int block, int row, int column) const {
    constexpr int kChunks = kColumns / 8;
    const int chunk = column / 8 ^ (row * kChunks / 8 % kChunks);
    return load_cached(values + static_cast<i64>(block) * kElements + row * kColumns + chunk * 8 + column % 8);
  }
};

// The blocks of a row, one after the other.
struct BlockCursor {
  static constexpr u32 kNone = 0xFFFFFFFFU;

  const u32* columns;
  int block;  // the next one
  int end;
  u32 column;  // its column of blocks, or kNone

  SPARSMITH_DEVICE BlockCursor(const u32* columns_, int begin, int end_)
      : columns(columns_), block(begin), end(end_), column(column_of_next()) {}
  SPARSMITH_DEVICE int left() const { return end - block; }
  SPARSMITH_DEVICE void advance() {
    ++block;
    column = column_of_next();
  }

 private:
  SPARSMITH_DEVICE u32 column_of_next() const { return block < end ? load_cached(columns + block) : kNone; }
};

}  // namespace bsr

// kColumns: of a block of W. kRowTiles: rows of blocks of a block of threads. kStages: of X and W.
template <class Input, class Output, int kColumns, int kTokens, int kRowTiles, int kStages>
struct BsrWgmmaKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kColumns, 32, 64)
  SPARSMITH_TUNE(kTokens, 64, 128, 256)
  SPARSMITH_TUNE(kRowTiles, 1, 2)

  using Value = typename Input::Value;
  using Weight = bsr::LinesWeight<Value, kColumns>;
  using Sums = TileSums<Value, kTokens, kRowTiles>;
  using Outputs = WarpOutputs<Value, Output, kTokens, 4>;
  using FewOutputs = WarpOutputs<Value, Output, Outputs::kSumTokens, 4>;
  static constexpr int kMultipliers = 4 * kRowTiles;  // warps, the first ones
  static constexpr int kThreads = (kMultipliers + 2) * 32;
  static constexpr int kLineBytes = kColumns * 2;

  // Shared memory: stages of X and W; outputs of each multiplying warp; barriers; which rows have a block in a stage.
  static constexpr int kInputBytes = kTokens * kLineBytes;
  static constexpr int kStageBytes = kInputBytes + kRowTiles * Weight::kBlockBytes;
  static constexpr int kOutputsAt = kStages * kStageBytes;
  static constexpr int kBarriersAt = kOutputsAt + kMultipliers * Outputs::kBytes;
  static constexpr int kRowMasksAt = kBarriersAt + 2 * kStages * 8;
  static constexpr int kSharedBytes = kRowMasksAt + kStages * 4;

  // x_map: of the same X as `input`, if that is aligned.
  static SPARSMITH_DEVICE void run(const Weight& weight, const TensorMap& x_map, const Input& input,
                                   const Output& output, int n, bool written, u8* shared) {
    launch_dependents();
    const Work work{weight, x_map, input, n, shared};
    if (thread_index() < kStages) {
      arrival_barrier_init(work.full(thread_index()), 2);
      arrival_barrier_init(work.empty(thread_index()), kMultipliers);
    }
    block_barrier();
    if (written) {
      wait_for_previous();  // W may be read
    }
    const int warp = thread_index() / 32;
    if (warp < kMultipliers) {
      wait_for_previous();  // Y may be read
      multiply(work, output, warp);
    } else if (warp == kMultipliers) {
      if (lane() == 0) bring<Part::kBlocks>(work);
    } else if (!input.aligned) {
      bring<Part::kElements>(work);
    } else if (lane() == 0) {
      bring<Part::kBoxes>(work);
    }
  }

 private:
  using Stage = StageCursor<kStages>;
  static constexpr u32 kLastStage = 4;  // of an output, beside its row mask
  static SPARSMITH_DEVICE int lane() { return lane_index(); }

  // The outputs of this block, one after the other, and its stages, which all roles count alike.
  struct Work {
    const Weight& weight;
    const TensorMap& x_map;
    const Input& input;
    int n;
    u8* shared;

    SPARSMITH_DEVICE int groups() const { return (weight.block_rows + kRowTiles - 1) / kRowTiles; }
    SPARSMITH_DEVICE int token_tiles() const { return (n + kTokens - 1) / kTokens; }
    SPARSMITH_DEVICE int outputs() const { return groups() * token_tiles(); }

    // Outputs go along the rows for each tile of tokens: blocks that read the same lines of X do so at about the same
    // time. Rows come with the most blocks first; in every second round of the grid, backwards.
    SPARSMITH_DEVICE void place(int index, int& first_row, int& first_token) const {
      const int tile = index / groups();
      const int group = index - tile * groups();
      const bool backwards = (tile * groups() + groups() / 2) / grid_size_x() % 2 != 0;
      first_row = (backwards ? groups() - 1 - group : group) * kRowTiles;
      first_token = tile * kTokens;
    }

    SPARSMITH_DEVICE ArrivalBarrier* full(int stage) const {
      return reinterpret_cast<ArrivalBarrier*>(shared + kBarriersAt) + stage;
    }
    SPARSMITH_DEVICE ArrivalBarrier* empty(int stage) const { return full(stage) + kStages; }
    SPARSMITH_DEVICE u32* row_mask(int stage) const { return reinterpret_cast<u32*>(shared + kRowMasksAt) + stage; }
    SPARSMITH_DEVICE u8* input_at(int stage) const { return shared + stage * kStageBytes; }
    SPARSMITH_DEVICE u8* block_at(int stage, int row) const {
      return input_at(stage) + kInputBytes + row * Weight::kBlockBytes;
    }
  };

  // ---- warps that bring W and X ----

  // What a warp brings: blocks of W; X, by boxes; or X that is not aligned for boxes. One lane starts copies, all lanes
  // store elements.
  enum class Part { kBlocks, kBoxes, kElements };

  template <Part kPart>
  static SPARSMITH_DEVICE void bring(const Work& work) {
    if constexpr (kPart != Part::kBlocks) {
      wait_for_previous();  // X may be read; the first blocks are under way
    }
    Stage stage;
    SPARSMITH_ROLLED for (int index = block_index_x(); index < work.outputs(); index += grid_size_x()) {
      int first_row = 0;
      int first_token = 0;
      work.place(index, first_row, first_token);
      const auto row = work.weight.row(first_row);
      const auto second = kRowTiles > 1 ? work.weight.row(first_row + 1) : row;
      bsr::BlockCursor cursors[2] = {{work.weight.columns, row.begin, row.end},
                                     {work.weight.columns, kRowTiles > 1 ? second.begin : second.end, second.end}};
      SPARSMITH_ROLLED while (cursors[0].left() + cursors[1].left() > 0) {
        const u32 column = cursors[0].column < cursors[1].column ? cursors[0].column : cursors[1].column;
        const u32 mask = (cursors[0].column == column ? 1U : 0U) | (cursors[1].column == column ? 2U : 0U);
        await(work.empty(stage.number), stage.parity ^ 1U);
        if constexpr (kPart == Part::kBlocks) {
          bring_blocks(work, cursors, mask, stage.number);
        } else {
          work.input.template bring<kTokens, kColumns, kPart == Part::kBoxes>(
              work.input_at(stage.number), work.x_map, first_token, static_cast<int>(column) * kColumns,
              work.full(stage.number));
        }
        SPARSMITH_UNROLL for (int r = 0; r < 2; ++r) {
          if ((mask >> r & 1U) != 0) cursors[r].advance();
        }
        stage.advance();
      }
    }
  }

  static SPARSMITH_DEVICE void bring_blocks(const Work& work, const bsr::BlockCursor (&cursors)[2], u32 mask,
                                            int stage) {
    ArrivalBarrier* full = work.full(stage);
    const int blocks = mask == 3U ? 2 : 1;
    const bool last = cursors[0].left() + cursors[1].left() == blocks;
    if constexpr (kRowTiles > 1) *work.row_mask(stage) = mask | (last ? kLastStage : 0U);
    arrive_expecting(full, blocks * Weight::kBlockBytes);
    SPARSMITH_UNROLL for (int r = 0; r < kRowTiles; ++r) {
      if ((mask >> r & 1U) == 0) continue;
      array_copy(work.block_at(stage, r), work.weight.values + static_cast<i64>(cursors[r].block) * Weight::kElements,
                 Weight::kBlockBytes, full);
    }
  }

  // ---- multiplying warpgroups ----

  static SPARSMITH_DEVICE void multiply(const Work& work, const Output& output, int warp) {
    const int row_tile = warp / 4;
    const SwizzledRows blocks = swizzled_rows(shared_offset(work.block_at(0, row_tile)));
    const SwizzledRows inputs = swizzled_rows(shared_offset(work.input_at(0)));
    Stage stage;
    Sums sums;
    SPARSMITH_ROLLED for (int index = block_index_x(); index < work.outputs(); index += grid_size_x()) {
      int first_row = 0;
      int first_token = 0;
      work.place(index, first_row, first_token);
      const auto row = work.weight.row(first_row + row_tile);
      bool more = false;  // stages of this output
      if constexpr (kRowTiles > 1) {
        const auto other = work.weight.row(first_row + 1 - row_tile);
        more = other.begin < other.end;
      }
      sums.clear();
      int last = -1;
      SPARSMITH_ROLLED for (int block = row.begin; block < row.end; ++block) {
        while (!is_own(work, stage, row_tile, more)) skip(work, stage, last);
        warpgroup_multiply_begin();
        sums.template multiply<kLineBytes>(advanced(blocks, stage.number * kStageBytes),
                                           advanced(inputs, stage.number * kStageBytes));
        warpgroup_multiply_commit();
        warpgroup_multiply_wait<1>();
        if (last >= 0) give_back(work, last);
        last = stage.number;
        stage.advance();
      }
      warpgroup_multiply_wait();
      if (last >= 0) give_back(work, last);
      last = -1;
      while (more) {
        is_own(work, stage, row_tile, more);
        skip(work, stage, last);
      }
      if (row.number >= work.weight.block_rows) continue;
      if (warpgroup_all(warp / 4, sums.finite())) {
        outputs<Outputs>(work, output, row, warp, first_token).store(sums.values);
      } else {
        finish_nonzeros(work, output, row, warp, first_token);
      }
    }
  }

  template <class Outputs_>
  static SPARSMITH_DEVICE Outputs_ outputs(const Work& work, const Output& output, const typename Weight::Row& row,
                                           int warp, int first_token) {
    const u32 halves[2] = {work.weight.half_row(row.number, 0), work.weight.half_row(row.number, 1)};
    return {work.shared + kOutputsAt + warp * Outputs::kBytes, output,      work.weight.rows,     work.n,
            halves[warp % 4 / 2] + warp % 2 * Outputs::kRows,  first_token, halves[1] - halves[0]};
  }

  // Awaits the stage, and says whether it has a block of the row. `more`: whether another stage follows.
  static SPARSMITH_DEVICE bool is_own(const Work& work, const Stage& stage, int row_tile, bool& more) {
    await(work.full(stage.number), stage.parity);
    if constexpr (kRowTiles == 1) return true;
    const u32 mask = shuffle_index(lane() == 0 ? *work.row_mask(stage.number) : 0, 0);  // who reads it also arrives
    more = (mask & kLastStage) == 0;
    return (mask >> row_tile & 1U) != 0;
  }

  // Gives a stage back that has no block of the row. The one before it may be needed for the next block of the other
  // row.
  static SPARSMITH_DEVICE void skip(const Work& work, Stage& stage, int& last) {
    if (last >= 0) {
      warpgroup_multiply_wait();
      give_back(work, last);
      last = -1;
    }
    give_back(work, stage.number);
    stage.advance();
  }

  // The stage may be filled again.
  static SPARSMITH_DEVICE void give_back(const Work& work, int stage) {
    if (lane() == 0) arrive(work.empty(stage));
  }

  // Rare, so it uses loops: outputs of the products of what the weight holds, 32 tokens at a time.
  static SPARSMITH_DEVICE void finish_nonzeros(const Work& work, const Output& output, const typename Weight::Row& row,
                                               int warp, int first_tile_token) {
    constexpr int kTogether = FewOutputs::kSumTokens;
    const int own = warp % 4 * Outputs::kRows + lane() / 4;
    SPARSMITH_ROLLED for (int part = 0; part < kTokens / kTogether; ++part) {
      const int first_token = first_tile_token + part * kTogether;
      TileSums<Value, kTogether, kRowTiles> sums;
      sums.clear();
      SPARSMITH_ROLLED for (int block = row.begin; block < row.end; ++block) {
        const int first_column = static_cast<int>(load_cached(work.weight.columns + block)) * kColumns;
        SPARSMITH_ROLLED for (int e = 0; e < kColumns; ++e) {
          const Value w[2] = {work.weight.element(block, own, e), work.weight.element(block, own + 8, e)};
          sums.add_column(w, bsr::kNothing, work.input, first_token, first_column + e);
        }
      }
      outputs<FewOutputs>(work, output, row, warp, first_token).store(sums.values);
    }
  }
};

}  // namespace sparsmith
