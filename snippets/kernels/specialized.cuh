// Y = W X on the warpgroup-wide tensor cores of sm_90, with W stored sparse, by warps of three roles (warp
// specialisation). Producing warps scatter the nonzeros of tiles of W into zeroed tiles in shared memory. Loading warps
// bring X there. The four warps of one warpgroup multiply tile by tile.
//
// A block owns kRowTiles row blocks of the scatter format, 64 rows each. Its tiles are numbered column by column;
// producing warp i % kProducers makes tile i, in place i % kPlaces of a ring. No threads meet at a barrier of the
// block. A producing warp signals that a tile is full, and the warpgroup signals that a place is empty again, each at
// an arrival barrier of the place. So tensor cores multiply a tile while others are stored and cleared, and a warp that
// waits for memory delays no other warp. Tiles are multiplied in order: two runs give equal bits.
//
// The kBlocks blocks of a cluster may own the same rows, with a part of the columns each (reduction/block_sums.cuh).
//
// Tensor cores multiply zeros as well, and 0 * Inf is NaN. If sums are not finite, the block multiplies its tiles
// again, with the products of nonzeros alone. So a zero weight contributes nothing, whatever X holds.
//
// The grid's x runs over row panels of kRowTiles row blocks, its y over token tiles; each strides if it is smaller than
// needed. Its z is the part of the columns.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/input_ring.cuh"
#include "snippets/prolog/scatter_entries.cuh"
#include "snippets/reduction/block_sums.cuh"
#include "snippets/reduction/tile_sums.cuh"

namespace sparsmith {

// kProducers: producing warps; kBuffers: tiles for which each of them has room. kWholeTiles: a tile is cleared as a
// whole, not entry by entry. Ring: InputRing.
template <class Entries, class Input, class Ring, class Output, int kTokens, int kRowTiles, int kWarpgroups,
          int kProducers, int kBuffers, bool kWholeTiles, int kBlocks>
struct SpecializedKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTokens, 8, 16, 32, 64, 128)
  SPARSMITH_TUNE(kRowTiles, 1, 2)
  SPARSMITH_TUNE(kWarpgroups, 1, 2)
  SPARSMITH_TUNE(kProducers, 8, 12, 16, 20)
  SPARSMITH_TUNE(kBuffers, 1, 2)
  SPARSMITH_TUNE(kBlocks, 1, 2)

  static constexpr int kGroupWarps = 4;
  static constexpr int kMultipliers = kWarpgroups * kGroupWarps;  // the first warps
  static constexpr int kLoaders = 4;                              // the last ones
  static constexpr int kThreads = (kMultipliers + kProducers + kLoaders) * 32;
  static constexpr int kPlaces = kProducers * kBuffers;
  static constexpr int kTileColumns = 64;
  static_assert(kProducers % kRowTiles == 0, "a producing warp stays in one row block");
  static constexpr int kStagePlaces = Ring::kStageTiles * kRowTiles;  // tiles that a stage of X is multiplied by
  static constexpr int kTurns = kWarpgroups / kRowTiles;              // warpgroups that take stages by turns
  static_assert(kWarpgroups % kRowTiles == 0, "a warpgroup multiplies tiles of one row block");
  // A place's barriers tell a phase only from its neighbours. A warpgroup that waited for the tile behind another
  // warpgroup's tile might be let through before its tile is there.
  static_assert(kPlaces % (kTurns * kStagePlaces) == 0 && Ring::kStages % kTurns == 0,
                "a place, and a stage, is of one warpgroup");
  static_assert(kPlaces >= 2 * kTurns * kStagePlaces, "nobody waits for a place of a tile that is multiplied");

  using Sums = TileSums<typename Input::Value, kTokens, kRowTiles>;
  using Totals = BlockSums<Sums, Output, Input::kTokenMajor, kTurns, kBlocks, kThreads>;

  // Shared memory: places of tiles, or partial sums; X; in a cluster, the sums of the other blocks; barriers; the first
  // rows of the row blocks' parts; whether the sums of each multiplying warp are finite.
  static constexpr int kPlaceBytes = kPlaces * scatter::kTileBytes;
  static constexpr int kInputAt = kPlaceBytes;
  static constexpr int kOthersAt = kInputAt + Ring::kBytes;
  static constexpr int kBarriersAt = kOthersAt + Totals::kOtherBytes;
  static constexpr int kBarriers = 2 * kPlaces + 2 * Ring::kStages;
  static constexpr int kRowPartsAt = kBarriersAt + kBarriers * 8;
  static constexpr int kRowParts = kRowTiles * 64 / scatter::kPartRows;
  static constexpr int kFiniteAt = kRowPartsAt + kRowParts * 4;
  static constexpr int kSharedBytes = kFiniteAt + kMultipliers * 4;

  // Multiplies tiles [first_tile, end_tile) of each row block.
  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const Input& input, const Output& output,
                                   int first_tile, int end_tile, int n, u8* shared) {
    launch_dependents();
    const int warp = warp_index();
    const int panels = (weight.row_blocks + kRowTiles - 1) / kRowTiles;
    u32* first_rows = reinterpret_cast<u32*>(shared + kRowPartsAt);
    const Barriers barriers{reinterpret_cast<ArrivalBarrier*>(shared + kBarriersAt)};
    bool again = false;
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int panel = block_index_x(); panel < panels; panel += grid_size_x()) {
        const Share share{weight,      input,      panel * kRowTiles,
                          first_token, first_tile, end_tile > first_tile ? end_tile : first_tile};
        if constexpr (kBlocks > 1) cluster_arrive_relaxed();  // it runs, and needs no other sums any more
        barriers.make_ready(share.has_row(kRowTiles - 1) ? kRowTiles : 1, again);
        again = true;
        block_barrier();  // and all have read the partial sums before, whose place tiles take
        if (warp < kMultipliers) {
          load_first_rows(weight, panel * kRowTiles, first_rows);
          multiply(share, barriers, warp, shared);
        } else if (warp < kMultipliers + kProducers) {
          produce(share, barriers, warp - kMultipliers, shared);
          meet();
        } else {
          load_input(share, barriers, warp - kMultipliers - kProducers, shared);
          meet();
        }
        if (!all_finite(shared)) accumulate_nonzeros(share, warp, shared);
        block_barrier();
        Totals{shared, shared + kOthersAt, first_rows, output, weight.rows, first_token, n}.finish();
      }
    }
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  static constexpr int kProducerColumns = kProducers / kRowTiles;  // column tiles from one of its tiles to the next
  using Cursor = scatter::TileCursor<typename Entries::Words, kProducerColumns>;

  static SPARSMITH_DEVICE int lane() { return scatter::lane_of_warp(); }

  // The work of a block.
  struct Share {
    const scatter::Weight& weight;
    const Input& input;
    int first_block;
    int first_token;
    int first_tile;
    int end_tile;

    SPARSMITH_DEVICE int columns() const { return end_tile - first_tile; }
    SPARSMITH_DEVICE bool has_row(int row) const { return first_block + row < weight.row_blocks; }
    // The number among all tiles.
    SPARSMITH_DEVICE int number(int row, int column) const {
      return (first_block + row) * weight.column_tiles + first_tile + column;
    }
  };

  // The barriers of every place and every stage. full: its writer has filled it. empty: all multiplying warps have read
  // it.
  struct Barriers {
    ArrivalBarrier* first;

    SPARSMITH_DEVICE ArrivalBarrier* full(int place) const { return first + place; }
    SPARSMITH_DEVICE ArrivalBarrier* empty(int place) const { return first + kPlaces + place; }
    SPARSMITH_DEVICE ArrivalBarrier* stage_full(int stage) const { return first + 2 * kPlaces + stage; }
    SPARSMITH_DEVICE ArrivalBarrier* stage_empty(int stage) const {
      return first + 2 * kPlaces + Ring::kStages + stage;
    }
    // row_tiles: the row tiles that exist. A warpgroup per row tile reads a stage; one warpgroup reads a tile's place.
    // If the barriers have been used before, all threads have met since.
    SPARSMITH_DEVICE void make_ready(int row_tiles, bool again) const {
      if (lane() != 0) return;
      for (int i = thread_index() / 32; i < kBarriers; i += kThreads / 32) {
        const bool full = i < kPlaces || (i >= 2 * kPlaces && i < 2 * kPlaces + Ring::kStages);
        if (again) arrival_barrier_end(first + i);
        arrival_barrier_init(first + i, full ? 1 : i < 2 * kPlaces ? kGroupWarps : kGroupWarps * row_tiles);
      }
    }
  };

  static SPARSMITH_DEVICE void load_first_rows(const scatter::Weight& weight, int first_block, u32* first_rows) {
    constexpr int kOfBlock = kRowParts / kRowTiles;
    if (thread_index() >= kRowParts) return;
    const int block = first_block + thread_index() / kOfBlock;
    first_rows[thread_index()] = block < weight.row_blocks
                                     ? load_cached(weight.row_parts + block * kOfBlock + thread_index() % kOfBlock)
                                     : static_cast<u32>(weight.rows);
  }

  static SPARSMITH_DEVICE u8* place_at(u8* shared, int place) { return shared + place * scatter::kTileBytes; }

  // This warp's writes to shared memory are for tensor cores. Threads that wait at the barrier see them.
  static SPARSMITH_DEVICE void hand_over(ArrivalBarrier* full) {
    tensor_reads_follow();
    warp_barrier();
    if (lane() == 0) arrive(full);
  }

  // All roles meet here when no tile is needed any more. Old Y and residuals may be read from then on.
  static SPARSMITH_DEVICE void meet() {
    wait_for_previous();
    block_barrier();
  }

  // ---- producing warps ----

  static SPARSMITH_DEVICE void produce(const Share& share, const Barriers& barriers, int producer, u8* shared) {
    const int row = producer % kRowTiles;
    const int begin = producer / kRowTiles;
    const int count = share.has_row(row) && begin < share.columns()
                          ? (share.columns() - begin + kProducerColumns - 1) / kProducerColumns
                          : 0;
    const int first = count > 0 ? share.number(row, begin) : 0;
    Entries next;
    Cursor cursor(share.weight, first, count, next.list);
    SPARSMITH_UNROLL for (int b = 0; b < kBuffers; ++b) scatter::zero_tile(place_at(shared, producer + b * kProducers));
    cursor.begin(next.list);
    if (1 < count) cursor.prefetch_next();
    Entries stored[kBuffers];  // what is left of them is what clears them
    u32 parity = 0;            // of the barriers' phases
    SPARSMITH_ROLLED for (int first_of_round = 0; first_of_round < count; first_of_round += kBuffers, parity ^= 1U) {
      SPARSMITH_UNROLL for (int b = 0; b < kBuffers; ++b) {
        const int t = first_of_round + b;
        if (t < count) {
          const int place = producer + b * kProducers;
          u8* tile = place_at(shared, place);
          const u32 base = Entries::base(shared_offset(tile));
          await(barriers.empty(place), parity ^ 1U);
          if (t >= kBuffers) scatter::clear_tile<kWholeTiles>(share.weight, tile, base, stored[b]);
          next.put(share.weight, first + t * kProducerColumns, base);
          stored[b] = next;
          hand_over(barriers.full(place));
          // Behind the fence, which would wait for these loads.
          if (t + 1 < count) cursor.load(next.list, stored[b].list.words[0]);
          if (t + 2 < count) cursor.prefetch_next();
        }
      }
    }
  }

  // ---- loading warps ----

  static SPARSMITH_DEVICE void load_input(const Share& share, const Barriers& barriers, int loader, u8* shared) {
    wait_for_previous();
    const int stages = (share.columns() + Ring::kStageTiles - 1) / Ring::kStageTiles;
    SPARSMITH_ROLLED for (int s = loader; s < stages; s += kLoaders) {
      const int stage = s % Ring::kStages;
      await(barriers.stage_empty(stage), static_cast<u32>(s / Ring::kStages % 2) ^ 1U);
      Ring::bring(share.input, share.first_token, (share.first_tile + s * Ring::kStageTiles) * kTileColumns,
                  shared + kInputAt + stage * Ring::kStageBytes);
      hand_over(barriers.stage_full(stage));
    }
  }

  // ---- multiplying warpgroups ----

  // A warpgroup multiplies the tiles of one row block, of every kTurns-th stage of X.
  static SPARSMITH_DEVICE void multiply(const Share& share, const Barriers& barriers, int warp, u8* shared) {
    const int group = warp / kGroupWarps;
    const int row = group % kRowTiles;
    const int turn = group / kRowTiles;
    const int columns = share.has_row(row) ? share.columns() : 0;
    const SwizzledRows places = swizzled_rows(shared_offset(shared));
    const SwizzledRows inputs = swizzled_rows(shared_offset(shared + kInputAt));
    Sums sums;
    sums.clear();
    int place = turn * kStagePlaces + row;  // of the stage's first tile
    int stage = turn;
    u32 parity = 0;  // of the places' phases, and of the stages'
    u32 stage_parity = 0;
    int last_place = -1;
    int last_stage = -1;
    SPARSMITH_ROLLED for (int first = turn * Ring::kStageTiles; first < columns; first += kTurns * Ring::kStageTiles) {
      await(barriers.stage_full(stage), stage_parity);
      SPARSMITH_UNROLL for (int c = 0; c < Ring::kStageTiles; ++c) {
        if (c > 0 && first + c >= columns) break;
        await(barriers.full(place + c * kRowTiles), parity);
        warpgroup_multiply_begin();
        sums.multiply(advanced(places, (place + c * kRowTiles) * scatter::kTileBytes),
                      advanced(inputs, stage * Ring::kStageBytes + c * Ring::kTileBytes));
        warpgroup_multiply_commit();
        warpgroup_multiply_wait<1>();
        if (lane() == 0) {
          if (c > 0 || last_place >= 0) arrive(barriers.empty(last_place));
          if (c == 0 && last_stage >= 0) arrive(barriers.stage_empty(last_stage));
        }
        last_place = place + c * kRowTiles;
      }
      last_stage = stage;
      place += kTurns * kStagePlaces;
      if (place >= kPlaces) {
        place -= kPlaces;
        parity ^= 1U;
      }
      stage += kTurns;
      if (stage >= Ring::kStages) {
        stage -= Ring::kStages;
        stage_parity ^= 1U;
      }
    }
    warpgroup_multiply_wait();  // nobody waits for the last place
    const bool finite = sums.finite();
    if (lane() == 0) reinterpret_cast<u32*>(shared + kFiniteAt)[warp] = finite ? 1 : 0;
    meet();
    if (all_finite(shared)) {
      float* partials = reinterpret_cast<float*>(shared) + turn * (Sums::kPartialBytes / 4);
      sums.put_partials(partials + row * 64, warp % kGroupWarps);
    }
  }

  // ---- what Inf and NaN take ----

  static SPARSMITH_DEVICE bool all_finite(const u8* shared) {
    u32 all = 1;
    SPARSMITH_UNROLL for (int w = 0; w < kMultipliers; ++w) all &= reinterpret_cast<const u32*>(shared + kFiniteAt)[w];
    return all != 0;
  }

  // The same sums, without products of zeros, left at the place of partial sums: the first producing warp makes one
  // tile after another dense, and all threads multiply.
  static SPARSMITH_DEVICE void accumulate_nonzeros(const Share& share, int warp, u8* shared) {
    static_assert(Totals::kPartialBytes <= (kPlaces - 1) * scatter::kTileBytes, "the last place stays free of sums");
    const bool makes = warp == kMultipliers;
    u8* dense = place_at(shared, kPlaces - 1);
    float* partials = reinterpret_cast<float*>(shared);
    const u32 base = Entries::base(shared_offset(dense));
    for (int i = thread_index(); i < Totals::kPartialBytes / 4; i += kThreads) partials[i] = 0.0F;
    if (makes) scatter::zero_tile(dense);
    SPARSMITH_ROLLED for (int i = 0; i < share.columns() * kRowTiles; ++i) {
      const int row = i % kRowTiles;
      if (!share.has_row(row)) continue;
      const int tile = share.number(row, i / kRowTiles);
      Entries list;
      const u32* offset = share.weight.more_offsets + tile;
      list.list.turn_to(load_cached(offset), load_cached(offset + 1));
      if (makes) list.put_unloaded(share.weight, tile, base);
      block_barrier();
      multiply_nonzeros(share, (share.first_tile + i / kRowTiles) * kTileColumns, dense, partials + row * 64);
      block_barrier();
      if (makes) list.clear_unloaded(share.weight, tile, base);
      warp_barrier();
    }
  }

  // Adds the products of a dense tile and the columns of X from `column` on.
  static SPARSMITH_DEVICE void multiply_nonzeros(const Share& share, int column, const u8* dense, float* partials) {
    SPARSMITH_ROLLED for (int i = thread_index(); i < 64 * kTokens; i += kThreads) {
      const int row = i % 64;
      float sum = partials[i / 64 * Sums::kLine + row];
      SPARSMITH_ROLLED for (int e = 0; e < kTileColumns; ++e) {
        const u8* at = dense + row * scatter::kLineBytes + (e / 8 ^ row % 8) * 16 + e % 8 * 2;
        const auto w = *reinterpret_cast<const typename Input::Value*>(at);
        if ((w.bits & 0x7FFFU) == 0) continue;
        sum = multiply_add(to_float(w), share.input.element(share.first_token + i / 64, column + e), sum);
      }
      partials[i / 64 * Sums::kLine + row] = sum;
    }
  }
};

}  // namespace sparsmith
