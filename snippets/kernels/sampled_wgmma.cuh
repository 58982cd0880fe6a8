// values = dY X^T where the weight has elements, for many tokens: warpgroups multiply the tiles of the weight that hold
// an element on the tensor cores of sm_90, another warp brings dY and X.
//
// The pattern is of the tile_masks format. A block of threads computes a group of tiles: 64 rows of the weight, the
// columns of dY, by up to kGroupColumns columns of the weight, the columns of X; or 128 rows by the same columns. It
// walks along the tokens. A stage is a box of dY for each 64 rows, and a box of X for each tile
// (device/tensor_copies.cuh), all of the same tokens. wgmma reads both turned: a token is a line. The boxes of X stand
// one behind the other, so that one instruction multiplies all tiles. Arrival barriers hand stages over. Blocks of
// threads are persistent: while the values of a group are stored, the stages of the next one are filled.
//
// For few groups the tokens are shared out in parts. Each part leaves sums in fp32, which a kernel behind this one adds
// up in order: two runs give equal bits.
//
// Only outputs that the weight holds are stored. Each is the sum of its own products, so Inf and NaN elsewhere do not
// reach it. Behind the last token both boxes are 0.
#pragma once

#include "formats/tile_masks_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/held_values.cuh"
#include "snippets/prolog/fragment_input.cuh"
#include "snippets/prolog/stage_cursor.cuh"

namespace sparsmith {

namespace tile_masks {

// The arrays of a packed pattern.
struct Pattern {
  const u32* group_panels;
  const u32* group_tiles;
  const u32* columns;
  const u32* masks;
  const u32* firsts;
  int groups;
};

}  // namespace tile_masks

// kTileColumns, kRowTiles, kGroupColumns: the C, R and G of the pattern. kStageTokens: of a stage.
template <class Input, class Output, int kTileColumns, int kRowTiles, int kGroupColumns, int kStageTokens, int kStages>
struct SampledWgmmaKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTileColumns, 32, 64)
  SPARSMITH_TUNE(kRowTiles, 1, 2)
  SPARSMITH_TUNE(kGroupColumns, 128, 256, 512)
  static_assert(kRowTiles == 1 || kGroupColumns <= 256, "a warpgroup has sums of 256 columns at most");

  using Value = typename Input::Value;
  using Pattern = tile_masks::Pattern;
  using Values = HeldValues<Output>;
  static constexpr int kTileRows = tile_masks::kTileRows;
  static constexpr int kUnitColumns = tile_masks::kUnitColumns;
  static constexpr int kUnitTiles = kUnitColumns / kTileColumns;
  static constexpr int kGroupTiles = kGroupColumns / kTileColumns;
  static constexpr bool kShared = kGroupColumns > 256;  // two warpgroups share out the columns of the same rows
  static constexpr int kWarpgroups = kShared ? 2 : kRowTiles;
  static constexpr int kColumns = kShared ? kGroupColumns / 2 : kGroupColumns;  // of a warpgroup
  static constexpr int kMultipliers = 4 * kWarpgroups;                          // warps, the first ones
  static constexpr int kThreads = (kMultipliers + 1) * 32;
  static constexpr int kLineBytes = kTileColumns * 2;

  // Shared memory: stages of dY and X; sums of each multiplying warp; barriers.
  static constexpr int kGradientBytes = kStageTokens * kTileRows * 2;  // of a box
  static constexpr int kInputBytes = kStageTokens * kLineBytes;
  static constexpr int kStageBytes = kRowTiles * kGradientBytes + kGroupTiles * kInputBytes;
  static constexpr int kSumsAt = kStages * kStageBytes;
  static constexpr int kBarriersAt = kSumsAt + kMultipliers * Values::kBytes;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kStages * 8;

  // dy_map, x_map: of the same dY and X as `dy` and `x`, if these are aligned. parts: of the tokens. part_stride: from
  // the sums of a part to those of the next one.
  static SPARSMITH_DEVICE void run(const Pattern& pattern, const TensorMap& dy_map, const TensorMap& x_map,
                                   const Input& dy, const Input& x, const Output& output, i64 part_stride, int parts,
                                   int n, u8* shared) {
    launch_dependents();
    const Work work{pattern, dy_map, x_map, dy, x, parts, n, shared};
    if (thread_index() < kStages) {
      arrival_barrier_init(work.full(thread_index()), 1);
      arrival_barrier_init(work.empty(thread_index()), kMultipliers);
    }
    block_barrier();
    const int warp = thread_index() / 32;
    if (warp < kMultipliers) {
      wait_for_previous();  // values may be read
      multiply(work, output, part_stride, warp);
    } else if (!dy.aligned || !x.aligned) {
      bring<false>(work);
    } else if (lane() == 0) {
      bring<true>(work);
    }
  }

 private:
  using Stage = StageCursor<kStages>;
  static SPARSMITH_DEVICE int lane() { return lane_index(); }

  // A group, for a part of the tokens.
  struct Unit {
    int panel;
    int first_tile;
    int tiles;
    int part;
    int step;  // stages [step, end_step) of the tokens
    int end_step;
  };

  struct Work {
    const Pattern& pattern;
    const TensorMap& dy_map;
    const TensorMap& x_map;
    const Input& dy;
    const Input& x;
    int parts;
    int n;
    u8* shared;

    SPARSMITH_DEVICE int units() const { return pattern.groups * parts; }
    // All groups of a part come first: blocks that run together read the same tokens.
    SPARSMITH_DEVICE Unit unit(int index) const {
      Unit unit;
      unit.part = index / pattern.groups;
      const int group = index - unit.part * pattern.groups;
      unit.panel = static_cast<int>(load_cached(pattern.group_panels + group));
      unit.first_tile = static_cast<int>(load_cached(pattern.group_tiles + group));
      unit.tiles = static_cast<int>(load_cached(pattern.group_tiles + group + 1)) - unit.first_tile;
      const int steps = unit.tiles > 0 ? (n + kStageTokens - 1) / kStageTokens : 0;
      const int part_steps = (steps + parts - 1) / parts;
      unit.step = unit.part * part_steps;
      unit.end_step = unit.step + part_steps < steps ? unit.step + part_steps : steps;
      return unit;
    }

    SPARSMITH_DEVICE ArrivalBarrier* full(int stage) const {
      return reinterpret_cast<ArrivalBarrier*>(shared + kBarriersAt) + stage;
    }
    SPARSMITH_DEVICE ArrivalBarrier* empty(int stage) const { return full(stage) + kStages; }
    SPARSMITH_DEVICE u8* gradient_at(int stage, int row_tile) const {
      return shared + stage * kStageBytes + row_tile * kGradientBytes;
    }
    SPARSMITH_DEVICE u8* input_at(int stage, int tile) const {
      return gradient_at(stage, kRowTiles) + tile * kInputBytes;
    }
  };

  // ---- the warp that brings dY and X ----

  // By boxes: one lane. Otherwise, where dY or X is not aligned for boxes, by elements: all lanes.
  template <bool kBoxes>
  static SPARSMITH_DEVICE void bring(const Work& work) {
    wait_for_previous();  // dY and X may be read
    Stage stage;
    SPARSMITH_ROLLED for (int index = block_index_x(); index < work.units(); index += grid_size_x()) {
      const Unit unit = work.unit(index);
      int columns[kGroupTiles];
      SPARSMITH_UNROLL for (int t = 0; t < kGroupTiles; ++t) {
        columns[t] = t < unit.tiles ? first_column(work, unit, t) : 0;
      }
      SPARSMITH_ROLLED for (int step = unit.step; step < unit.end_step; ++step) {
        await(work.empty(stage.number), stage.parity ^ 1U);
        if constexpr (kBoxes) {
          bring_boxes(work, unit, columns, step * kStageTokens, stage.number);
        } else {
          bring_elements(work, unit, step * kStageTokens, stage.number);
        }
        stage.advance();
      }
    }
  }

  static SPARSMITH_DEVICE int first_column(const Work& work, const Unit& unit, int tile) {
    return static_cast<int>(load_cached(work.pattern.columns + unit.first_tile + tile)) * kTileColumns;
  }

  static SPARSMITH_DEVICE void bring_boxes(const Work& work, const Unit& unit, const int (&columns)[kGroupTiles],
                                           int token, int stage) {
    ArrivalBarrier* full = work.full(stage);
    const u32 own = 1U << cluster_rank();
    arrive_expecting(full, kRowTiles * kGradientBytes + unit.tiles * kInputBytes);
    SPARSMITH_UNROLL for (int r = 0; r < kRowTiles; ++r) {
      box_copy(work.gradient_at(stage, r), work.dy_map, (unit.panel * kRowTiles + r) * kTileRows, token, full, own);
    }
    SPARSMITH_UNROLL for (int t = 0; t < kGroupTiles; ++t) {
      if (t < unit.tiles) box_copy(work.input_at(stage, t), work.x_map, columns[t], token, full, own);
    }
  }

  static SPARSMITH_DEVICE void bring_elements(const Work& work, const Unit& unit, int token, int stage) {
    SPARSMITH_ROLLED for (int r = 0; r < kRowTiles; ++r) {
      work.dy.template put_boxes<kStageTokens, kTileRows>(work.gradient_at(stage, r), token,
                                                          (unit.panel * kRowTiles + r) * kTileRows);
    }
    SPARSMITH_ROLLED for (int t = 0; t < unit.tiles; ++t) {
      work.x.template put_boxes<kStageTokens, kTileColumns>(work.input_at(stage, t), token,
                                                            first_column(work, unit, t));
    }
    tensor_reads_follow();
    warp_barrier();
    if (lane() == 0) arrive(work.full(stage));
    warp_barrier();  // it does not stand for what other lanes write from here on
  }

  // ---- multiplying warpgroups ----

  static SPARSMITH_DEVICE void multiply(const Work& work, const Output& output, i64 part_stride, int warp) {
    Stage stage;
    SPARSMITH_ROLLED for (int index = block_index_x(); index < work.units(); index += grid_size_x()) {
      const Unit unit = work.unit(index);
      // This warpgroup's columns, by 64.
      const int columns = unit.tiles / kUnitTiles;
      const int half = (columns + 1) / 2;
      const int first = kShared && warp / 4 == 1 ? half : 0;
      const int count = !kShared ? columns : warp / 4 == 0 ? half : columns - half;
      Output of_part = output;
      of_part.y += unit.part * part_stride;
      if (count == 0) {
        skip(work, stage, unit);
      } else if (count == 1) {
        multiply_columns<64>(work, of_part, stage, unit, warp, first);
      } else if (kColumns == 128 || count == 2) {
        multiply_columns<128>(work, of_part, stage, unit, warp, first);
      } else if (count == 3) {
        multiply_columns<kColumns == 128 ? 128 : 192>(work, of_part, stage, unit, warp, first);
      } else {
        multiply_columns<kColumns>(work, of_part, stage, unit, warp, first);
      }
    }
  }

  static SPARSMITH_DEVICE void skip(const Work& work, Stage& stage, const Unit& unit) {
    SPARSMITH_ROLLED for (int step = unit.step; step < unit.end_step; ++step) {
      await(work.full(stage.number), stage.parity);
      give_back(work, stage.number);
      stage.advance();
    }
  }

  // The stage may be filled again.
  static SPARSMITH_DEVICE void give_back(const Work& work, int stage) {
    if (lane() == 0) arrive(work.empty(stage));
  }

  // kCount columns of a unit, from the `first`th 64 on.
  template <int kCount>
  static SPARSMITH_DEVICE void multiply_columns(const Work& work, const Output& output, Stage& stage, const Unit& unit,
                                                int warp, int first) {
    const int row_tile = kRowTiles > 1 ? warp / 4 : 0;
    const SwizzledRows gradients = swizzled_rows(shared_offset(work.gradient_at(0, row_tile)));
    const SwizzledRows inputs = swizzled_rows(shared_offset(work.input_at(0, first * kUnitTiles)));
    float sums[kCount / 2];
    SPARSMITH_UNROLL for (int i = 0; i < kCount / 2; ++i) sums[i] = 0.0F;
    int last = -1;
    SPARSMITH_ROLLED for (int step = unit.step; step < unit.end_step; ++step) {
      await(work.full(stage.number), stage.parity);
      const int at = stage.number * kStageBytes;
      warpgroup_multiply_begin();
      SPARSMITH_UNROLL for (int t = 0; t < kStageTokens; t += 16) {
        TurnedMultiply<Value, kCount>::template add<kLineBytes, kInputBytes>(
            sums, advanced(gradients, at + t * kTileRows * 2), advanced(inputs, at + t * kLineBytes));
      }
      warpgroup_multiply_commit();
      warpgroup_multiply_wait<1>();
      if (last >= 0) give_back(work, last);
      last = stage.number;
      stage.advance();
    }
    warpgroup_multiply_wait();
    if (last >= 0) give_back(work, last);
    const i64 first_tile = unit.first_tile + first * kUnitTiles;
    store<kCount>(work, output, first_tile * kRowTiles + row_tile, warp, sums);
  }

  // ---- values ----

  // Stores those of this warp's 16 rows that the weight holds. `tile`: of the first column, as masks count tiles.
  template <int kCount>
  static SPARSMITH_DEVICE void store(const Work& work, const Output& output, i64 tile, int warp,
                                     const float (&sums)[kCount / 2]) {
    const Values values{reinterpret_cast<float*>(work.shared + kSumsAt + warp * Values::kBytes), output};
    // Of each 64 columns, this lane's mask: of row lane % 16, of columns 32 (lane / 16) and on; and the place of the
    // first value there.
    u32 masks[kCount / kUnitColumns];
    u32 places[kCount / kUnitColumns];
    const int row = warp % 4 * Values::kRows + lane() % Values::kRows;
    SPARSMITH_UNROLL for (int u = 0; u < kCount / kUnitColumns; ++u) {
      const int half = lane() / Values::kRows;
      const i64 at = (tile + (u * kUnitTiles + (kUnitTiles > 1 ? half : 0)) * kRowTiles) * kTileRows + row;
      masks[u] = load_cached(work.pattern.masks + (kUnitTiles > 1 ? at : 2 * at + half));
      places[u] = load_cached(work.pattern.firsts + at);
      if constexpr (kUnitTiles == 1) {
        const u32 before = shuffle_index(masks[u], lane() % Values::kRows);
        if (half == 1) places[u] += count_bits(before);
      }
    }
    SPARSMITH_UNROLL for (int word = 0; word < kCount / Values::kColumns; ++word) {
      values.store(sums, word * 16, masks[word / 2], places[word / 2], word % 2);
    }
  }
};

}  // namespace sparsmith
