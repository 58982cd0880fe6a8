// values = dY X^T where the weight has elements, for many tokens and weights of which most columns meet most rows: two
// warpgroups multiply tiles of 32 columns by any two bands of 32 rows on the tensor cores of sm_90, another warp brings
// dY and X.
//
// The pattern is of the region_masks format. A block of threads computes a region: up to 2 kTiles tiles of 512 rows of
// the weight, the columns of dY, and of four times 64 of its columns, the columns of X. It walks along the tokens. A
// stage is a box of dY for each band and a box of X for each 64 columns (device/tensor_copies.cuh), all of the same
// tokens. A cluster of two blocks has the same rows: each brings half of the bands to both. wgmma reads its operands
// turned: a token is a line. The two bands of a tile are two boxes, at any distance. Arrival barriers hand stages over.
// Blocks of threads are persistent: while the values of a region are stored, the stages of the next one are filled.
//
// Only outputs that the weight holds are stored. Each is the sum of its own products, so Inf and NaN elsewhere do not
// reach it. Behind the last token both boxes are 0.
#pragma once

#include "formats/region_masks_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/held_values.cuh"
#include "snippets/prolog/fragment_input.cuh"
#include "snippets/prolog/stage_cursor.cuh"

namespace sparsmith {

namespace region_masks {

// The arrays of a packed pattern.
struct Pattern {
  const u32* region_panels;
  const u32* region_tiles;
  const u32* columns;
  const u32* tiles;
  const u32* masks;
  const u32* firsts;
  int regions;
};

}  // namespace region_masks

// kTiles: of a warpgroup; half of the T of the pattern.
template <class Input, class Output, int kTiles, int kStages>
struct SampledRegionsKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTiles, 4, 5, 6, 7, 8, 9, 10, 11)

  using Value = typename Input::Value;
  using Pattern = region_masks::Pattern;
  using Values = HeldValues<Output>;
  static constexpr int kBlocks = 2;  // of a cluster
  static constexpr int kWarpgroups = 2;
  static constexpr int kMultipliers = 4 * kWarpgroups;  // warps, the first ones
  // Sums leave multiplying warps too few registers: so there is a third warpgroup, with three idle warps, that gives
  // them some.
  static constexpr int kThreads = (kMultipliers + 4) * 32;
  static constexpr int kMultiplierRegisters = 224;
  static constexpr int kOtherRegisters = 56;
  static constexpr int kBands = region_masks::kBands;
  static constexpr int kBandRows = region_masks::kBandRows;
  static constexpr int kBoxes = region_masks::kBoxes;
  static constexpr int kBoxColumns = region_masks::kBoxColumns;
  static constexpr int kTileRows = region_masks::kTileRows;
  static constexpr int kStageTokens = 32;

  // Shared memory: stages of dY and X; sums of each multiplying warp; operands of tiles; barriers.
  static constexpr int kBandLine = kBandRows * 2;
  static constexpr int kInputLine = kBoxColumns * 2;
  static constexpr int kBandBytes = kStageTokens * kBandLine;
  static constexpr int kInputBytes = kStageTokens * kInputLine;
  static constexpr int kInputsAt = kBands * kBandBytes;  // in a stage
  static constexpr int kStageBytes = kInputsAt + kBoxes * kInputBytes;
  static constexpr int kSumsAt = kStages * kStageBytes;
  static constexpr int kOperandsAt = kSumsAt + kMultipliers * Values::kBytes;
  static constexpr int kBarriersAt = kOperandsAt + kWarpgroups * kTiles * 8;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kStages * 8;

  // dy_map, x_map: of the same dY and X as `dy` and `x`, if these are aligned.
  static SPARSMITH_DEVICE void run(const Pattern& pattern, const TensorMap& dy_map, const TensorMap& x_map,
                                   const Input& dy, const Input& x, const Output& output, int n, u8* shared) {
    launch_dependents();
    const Work work{pattern, dy_map, x_map, dy, x, n, shared};
    if (thread_index() < kStages) {
      arrival_barrier_init(work.full(thread_index()), 1);
      arrival_barrier_init(work.empty(thread_index()), kMultipliers * kBlocks);
    }
    cluster_arrive();  // both blocks run, and see each other's barriers
    cluster_wait();
    const int warp = thread_index() / 32;
    if (warp < kMultipliers) {
      take_registers<kMultiplierRegisters>();
      wait_for_previous();  // values may be read
      multiply(work, output, warp);
    } else {
      give_registers<kOtherRegisters>();
      if (warp > kMultipliers) {
        // idle
      } else if (!dy.aligned || !x.aligned) {
        bring<false>(work);
      } else if (lane_index() == 0) {
        bring<true>(work);
      }
    }
    warp_barrier();
    cluster_arrive();  // no block ends while the other one brings it dY, or arrives there
    cluster_wait();
  }

 private:
  using Stage = StageCursor<kStages>;

  // A tile's dY and X in the first stage.
  struct alignas(8) Operands {
    SwizzledPair bands;
    SwizzledRows inputs;
  };

  struct Work {
    const Pattern& pattern;
    const TensorMap& dy_map;
    const TensorMap& x_map;
    const Input& dy;
    const Input& x;
    int n;
    u8* shared;

    // Of a region: none for a pair without tiles, whose other one is in the cluster's other block.
    SPARSMITH_DEVICE int steps(int region) const {
      const u32* first_tiles = pattern.region_tiles + region / kBlocks * kBlocks;
      return load_cached(first_tiles) == load_cached(first_tiles + kBlocks) ? 0 : (n + kStageTokens - 1) / kStageTokens;
    }

    SPARSMITH_DEVICE ArrivalBarrier* full(int stage) const {
      return reinterpret_cast<ArrivalBarrier*>(shared + kBarriersAt) + stage;
    }
    SPARSMITH_DEVICE ArrivalBarrier* empty(int stage) const { return full(stage) + kStages; }
    SPARSMITH_DEVICE u8* band_at(int stage, int band) const { return shared + stage * kStageBytes + band * kBandBytes; }
    SPARSMITH_DEVICE u8* input_at(int stage, int box) const {
      return shared + stage * kStageBytes + kInputsAt + box * kInputBytes;
    }
    SPARSMITH_DEVICE Operands* operands(int warpgroup) const {
      return reinterpret_cast<Operands*>(shared + kOperandsAt) + warpgroup * kTiles;
    }
  };

  // ---- the warp that brings dY and X ----

  // By boxes, one lane: half of the bands to both blocks. Otherwise, where dY or X is not aligned for boxes, by
  // elements, all lanes: all bands to this block.
  template <bool kBoxCopies>
  static SPARSMITH_DEVICE void bring(const Work& work) {
    wait_for_previous();  // dY and X may be read
    Stage stage;
    SPARSMITH_ROLLED for (int region = block_index_x(); region < work.pattern.regions; region += grid_size_x()) {
      const int row = static_cast<int>(load_cached(work.pattern.region_panels + region)) * region_masks::kPanelRows;
      int columns[kBoxes];
      int boxes = 0;
      SPARSMITH_UNROLL for (int b = 0; b < kBoxes; ++b) {
        const u32 column = load_cached(work.pattern.columns + region * kBoxes + b);
        columns[b] = static_cast<int>(column) * kBoxColumns;
        boxes += column != region_masks::kNoColumns ? 1 : 0;
      }
      const int steps = work.steps(region);
      SPARSMITH_ROLLED for (int step = 0; step < steps; ++step) {
        await(work.empty(stage.number), stage.parity ^ 1U);
        if constexpr (kBoxCopies) {
          bring_boxes(work, row, columns, boxes, step * kStageTokens, stage.number);
        } else {
          bring_elements(work, row, columns, boxes, step * kStageTokens, stage.number);
        }
        stage.advance();
      }
    }
  }

  static SPARSMITH_DEVICE void bring_boxes(const Work& work, int row, const int (&columns)[kBoxes], int boxes,
                                           int token, int stage) {
    ArrivalBarrier* full = work.full(stage);
    arrive_expecting(full, kBands * kBandBytes + boxes * kInputBytes);
    const int first = cluster_rank() * (kBands / kBlocks);
    SPARSMITH_UNROLL for (int b = 0; b < kBands / kBlocks; ++b) {
      const int band = first + b;
      box_copy(work.band_at(stage, band), work.dy_map, row + band * kBandRows, token, full, (1U << kBlocks) - 1);
    }
    SPARSMITH_UNROLL for (int b = 0; b < kBoxes; ++b) {
      if (b < boxes) box_copy(work.input_at(stage, b), work.x_map, columns[b], token, full, 1U << cluster_rank());
    }
  }

  static SPARSMITH_DEVICE void bring_elements(const Work& work, int row, const int (&columns)[kBoxes], int boxes,
                                              int token, int stage) {
    SPARSMITH_ROLLED for (int band = 0; band < kBands; ++band) {
      work.dy.template put_boxes<kStageTokens, kBandRows>(work.band_at(stage, band), token, row + band * kBandRows);
    }
    SPARSMITH_UNROLL for (int b = 0; b < kBoxes; ++b) {
      if (b < boxes) work.x.template put_boxes<kStageTokens, kBoxColumns>(work.input_at(stage, b), token, columns[b]);
    }
    tensor_reads_follow();
    warp_barrier();
    if (lane_index() == 0) arrive(work.full(stage));
    warp_barrier();  // it does not stand for what other lanes write from here on
  }

  // ---- multiplying warpgroups ----

  // A warpgroup has every second tile of a region.
  static SPARSMITH_DEVICE void multiply(const Work& work, const Output& output, int warp) {
    const int warpgroup = warp / 4;
    Stage stage;
    SPARSMITH_ROLLED for (int region = block_index_x(); region < work.pattern.regions; region += grid_size_x()) {
      const int first = static_cast<int>(load_cached(work.pattern.region_tiles + region)) + warpgroup;
      const int end = static_cast<int>(load_cached(work.pattern.region_tiles + region + 1));
      const int count = first < end ? (end - first + 1) / 2 : 0;
      const int steps = work.steps(region);
      if (count == 0) {
        skip(work, stage, steps);
        continue;
      }
      put_operands(work, warpgroup, first, count);
      float sums[kTiles][16];
      SPARSMITH_UNROLL for (int t = 0; t < kTiles; ++t) begin_sums(sums[t]);
      multiply_tiles(work, stage, steps, work.operands(warpgroup), sums);
      store(work, output, first, count, warp, sums);
    }
  }

  static SPARSMITH_DEVICE void skip(const Work& work, Stage& stage, int steps) {
    SPARSMITH_ROLLED for (int step = 0; step < steps; ++step) {
      await(work.full(stage.number), stage.parity);
      give_back(work, stage.number);
      stage.advance();
    }
  }

  // Both blocks may fill the stage again; the own one knows it first, so that the other block's next arrival there does
  // not overtake this one.
  static SPARSMITH_DEVICE void give_back(const Work& work, int stage) {
    if (lane_index() != 0) return;
    SPARSMITH_UNROLL for (int b = 0; b < kBlocks; ++b) {
      arrive_in_block(work.empty(stage), (cluster_rank() + b) % kBlocks);
    }
  }

  // Operands of tiles first, first + 2, ...; behind them those of the first one again, whose sums go nowhere.
  static SPARSMITH_DEVICE void put_operands(const Work& work, int warpgroup, int first, int count) {
    const int t = thread_index() % kWarpgroupThreads;
    warpgroup_barrier(warpgroup);  // those of the region before have been read
    if (t < kTiles) {
      const u32 tile = load_cached(work.pattern.tiles + first + (t < count ? 2 * t : 0));
      const int band = static_cast<int>(tile & 0xFFU);
      const int distance = static_cast<int>(tile >> 8 & 0xFFU) - band;
      const int column = static_cast<int>(tile >> 16);
      const u32 inputs = shared_offset(work.input_at(0, column / 2)) + column % 2 * (kInputLine / 2);
      work.operands(warpgroup)[t] = {swizzled_pair(shared_offset(work.band_at(0, band)), distance * kBandBytes),
                                     swizzled_rows(inputs)};
    }
    warpgroup_barrier(warpgroup);
  }

  static SPARSMITH_DEVICE void multiply_tiles(const Work& work, Stage& stage, int steps, const Operands* operands,
                                              float (&sums)[kTiles][16]) {
    int last = -1;
    SPARSMITH_ROLLED for (int step = 0; step < steps; ++step) {
      await(work.full(stage.number), stage.parity);
      const int at = stage.number * kStageBytes;
      warpgroup_multiply_begin();
      SPARSMITH_UNROLL for (int t = 0; t < kTiles; ++t) {
        const Operands own = operands[t];
        SPARSMITH_UNROLL for (int token = 0; token < kStageTokens; token += 16) {
          PairMultiply<Value>::add(sums[t], advanced(own.bands, at + token * kBandLine),
                                   advanced(own.inputs, at + token * kInputLine));
        }
      }
      warpgroup_multiply_commit();
      warpgroup_multiply_wait<1>();
      if (last >= 0) give_back(work, last);
      last = stage.number;
      stage.advance();
    }
    warpgroup_multiply_wait();
    if (last >= 0) give_back(work, last);
  }

  // This warp's 16 rows of each tile. Masks and places of all tiles are on their way at once.
  static SPARSMITH_DEVICE void store(const Work& work, const Output& output, int first, int count, int warp,
                                     const float (&sums)[kTiles][16]) {
    const int row = warp % 4 * Values::kRows + lane_index() % Values::kRows;
    u32 masks[kTiles];
    u32 places[kTiles];
    SPARSMITH_UNROLL for (int t = 0; t < kTiles; ++t) {
      const i64 at = i64{first + (t < count ? 2 * t : 0)} * kTileRows + row;
      masks[t] = load_cached(work.pattern.masks + at);
      places[t] = load_cached(work.pattern.firsts + at);
    }
    const Values values{reinterpret_cast<float*>(work.shared + kSumsAt + warp * Values::kBytes), output};
    SPARSMITH_UNROLL for (int t = 0; t < kTiles; ++t) {
      if (t < count) values.store(sums[t], 0, masks[t], places[t], 0);
    }
  }
};

}  // namespace sparsmith
