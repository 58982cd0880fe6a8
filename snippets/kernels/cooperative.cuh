// Y = W X for many tokens, with W stored sparse, at the pace of a dense product: two warpgroups multiply 128 rows by
// kTokens tokens on the tensor cores of sm_90, the warps of a third one make tiles of W dense for them.
//
// A cluster of two blocks owns 256 rows and the same tokens. Each block brings half of X's tokens, as boxes, to both
// (snippets/device/tensor_copies.cuh). A stage holds 64 columns: X, and a tile of 64 x 64 of W for each of the two
// warpgroups. Its four producing warps take stages by turns: two of them scatter the nonzeros of a stage's two tiles
// (formats/scatter_layout.h). Arrival barriers hand stages over, of X also between the blocks. Blocks are persistent:
// while the sums of some outputs are stored, the stages of the next ones are filled. Tiles are multiplied in order: two
// runs give equal bits.
//
// Where there are few outputs, the two blocks have the same 128 rows instead, with half of the columns each, and add up
// their sums (reduction/block_sums.cuh).
//
// Tensor cores multiply zeros as well, and 0 * Inf is NaN. If the sums of a warpgroup are not finite, it adds the
// products of nonzeros alone instead. So a zero weight contributes nothing, whatever X holds.
//
// The grid's x runs over blocks, its z over parts of the columns.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/warp_outputs.cuh"
#include "snippets/prolog/scatter_entries.cuh"
#include "snippets/prolog/stage_cursor.cuh"
#include "snippets/reduction/block_sums.cuh"
#include "snippets/reduction/tile_sums.cuh"

namespace sparsmith {

// Input: FragmentInput, for what boxes cannot bring. kStages: of X and W. kWholeTiles: a tile is cleared as a whole,
// not entry by entry. kParts: of the columns.
template <class Entries, class Input, class Output, int kTokens, int kStages, bool kWholeTiles, int kParts>
struct CooperativeKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTokens, 128, 256)
  SPARSMITH_TUNE(kStages, 4, 6)
  SPARSMITH_TUNE(kParts, 1, 2)

  static constexpr int kRowTiles = 2;                 // of a block, one for each warpgroup that multiplies
  static constexpr int kBlocks = kParts > 1 ? 1 : 2;  // of a cluster of two, that share their tokens
  static constexpr int kMultipliers = 8;              // warps, the first ones
  static constexpr int kProducers = 4;
  static constexpr int kThreads = (kMultipliers + kProducers) * 32;
  static constexpr int kTileColumns = 64;
  static_assert(kStages % 2 == 0, "a stage's tiles are always made by the same warps");

  using Sums = TileSums<typename Input::Value, kTokens, kRowTiles>;
  using Outputs = WarpOutputs<typename Input::Value, Output, kTokens, 1>;
  static constexpr int kSumTokens = Outputs::kSumTokens;
  using FewOutputs = WarpOutputs<typename Input::Value, Output, kSumTokens, 1>;
  using FewSums = TileSums<typename Input::Value, kSumTokens, kRowTiles>;
  using Totals = BlockSums<Sums, Output, true, 1, kParts, kThreads>;

  // Shared memory: stages of X; stages of W; for each multiplying warp the sums of 32 tokens, or for its warpgroup a
  // tile; barriers; the first rows of the block's parts.
  // Where blocks share out the columns, partial sums and those of the other block take the place of all but barriers.
  static constexpr int kInputBytes = kTokens * kTileColumns * 2;
  static constexpr int kTilesAt = kStages * kInputBytes;
  static constexpr int kSumsAt = kTilesAt + kStages * kRowTiles * scatter::kTileBytes;
  static constexpr int kWarpSumBytes = Outputs::kBytes;
  static_assert(4 * kWarpSumBytes >= scatter::kTileBytes, "a warpgroup's sums leave room for a tile");
  static constexpr int kBarriersAt = kSumsAt + kMultipliers * kWarpSumBytes;
  static constexpr int kStageBarriers = 2 + kRowTiles;  // X is there; each row's tile is there; both have been read
  static constexpr int kRowPartsAt = kBarriersAt + kStages * kStageBarriers * 8;
  static constexpr int kBlockParts = 64 / scatter::kPartRows;  // of a row block
  static constexpr int kSharedBytes = kRowPartsAt + kRowTiles * kBlockParts * 4;
  static constexpr int kOthersAt = Totals::kPartialBytes;
  static_assert(kParts == 1 || kOthersAt + Totals::kOtherBytes <= kBarriersAt,
                "there is no room for sums of both blocks");

  // Multiplies tiles [first_tile, end_tile) of each row block. x_map: of the same X as `input`, if that is aligned.
  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const TensorMap& x_map, const Input& input,
                                   const Output& output, int first_tile, int end_tile, int n, u8* shared) {
    launch_dependents();
    const int warp = thread_index() / 32;
    const Work work{weight, x_map, input, first_tile, end_tile > first_tile ? end_tile - first_tile : 0, n, shared};
    work.make_barriers();
    cluster_arrive();  // all blocks run, and see each other's barriers
    cluster_wait();
    if (warp < kMultipliers) {
      wait_for_previous();  // Y may be read
      multiply(work, output, warp);
    } else {
      produce(work, output, warp - kMultipliers);
    }
    if constexpr (kParts == 1) {
      warp_barrier();
      cluster_arrive();  // no block ends while the other one brings it X, or arrives there
      cluster_wait();
    }
  }

 private:
  using Cursor = scatter::TileCursor<typename Entries::Words, 2>;
  using Stage = StageCursor<kStages>;
  static SPARSMITH_DEVICE int lane() { return scatter::lane_of_warp(); }

  // The tiles of outputs of this block, one after the other, and its stages, which all roles count alike.
  struct Work {
    const scatter::Weight& weight;
    const TensorMap& x_map;
    const Input& input;
    int first_tile;
    int columns;  // of tiles
    int n;
    u8* shared;

    SPARSMITH_DEVICE int row_panels() const {
      return (weight.row_blocks + kBlocks * kRowTiles - 1) / (kBlocks * kRowTiles);
    }
    SPARSMITH_DEVICE int token_tiles() const { return (n + kTokens - 1) / kTokens; }
    SPARSMITH_DEVICE int outputs() const { return row_panels() * token_tiles(); }
    SPARSMITH_DEVICE int first() const { return block_index_x() / kBlocks; }
    SPARSMITH_DEVICE int step() const { return grid_size_x() / kBlocks; }
    // Of the blocks that share their tokens, the number of this one; the rank of the first of them in the cluster.
    static SPARSMITH_DEVICE int number() { return kParts > 1 ? 0 : cluster_rank(); }
    static SPARSMITH_DEVICE int first_rank() { return kParts > 1 ? cluster_rank() : 0; }

    // Clusters that run at the same time share rows and tokens: outputs go along the tokens of kPanels row panels.
    SPARSMITH_DEVICE void place(int index, int& first_block, int& first_token) const {
      constexpr int kPanels = 8;
      const int group = index / (kPanels * token_tiles());
      const int in_group = index - group * kPanels * token_tiles();
      const int left = row_panels() - group * kPanels;
      const int panels = left < kPanels ? left : kPanels;
      first_block = ((group * kPanels + in_group % panels) * kBlocks + number()) * kRowTiles;
      first_token = in_group / panels * kTokens;
    }

    SPARSMITH_DEVICE ArrivalBarrier* barriers(int stage) const {
      return reinterpret_cast<ArrivalBarrier*>(shared + kBarriersAt) + stage * kStageBarriers;
    }
    SPARSMITH_DEVICE ArrivalBarrier* input_full(int stage) const { return barriers(stage); }
    SPARSMITH_DEVICE ArrivalBarrier* tile_full(int stage, int row) const { return barriers(stage) + 1 + row; }
    SPARSMITH_DEVICE ArrivalBarrier* empty(int stage) const { return barriers(stage) + 1 + kRowTiles; }
    SPARSMITH_DEVICE void make_barriers() const {
      if (thread_index() >= kStages) return;
      arrival_barrier_init(input_full(thread_index()), 1);
      for (int row = 0; row < kRowTiles; ++row) arrival_barrier_init(tile_full(thread_index(), row), 1);
      arrival_barrier_init(empty(thread_index()), kMultipliers * kBlocks);
    }
    SPARSMITH_DEVICE u8* input_at(int stage) const { return shared + stage * kInputBytes; }
    SPARSMITH_DEVICE u8* tile_at(int stage, int row) const {
      return shared + kTilesAt + (stage * kRowTiles + row) * scatter::kTileBytes;
    }
  };

  // This warp's writes to shared memory are for tensor cores. Threads that wait at the barrier see them.
  static SPARSMITH_DEVICE void hand_over(ArrivalBarrier* full) {
    tensor_reads_follow();
    warp_barrier();
    if (lane() == 0) arrive(full);
    warp_barrier();  // it does not stand for what other lanes write from here on
  }

  // For blocks that share out the columns. All threads meet here when no stage is needed any more, and partial sums may
  // take their place.
  static SPARSMITH_DEVICE void end_stages() {
    if constexpr (kParts > 1) block_barrier();
  }
  // All threads make outputs of the partial sums. Stages may be filled again.
  static SPARSMITH_DEVICE void add_parts(const Work& work, const Output& output, int first_token) {
    if constexpr (kParts > 1) {
      block_barrier();
      cluster_arrive();  // the other block's sums may take the place of stages, whose tiles it must not overtake
      const u32* first_rows = reinterpret_cast<const u32*>(work.shared + kRowPartsAt);
      Totals{work.shared, work.shared + kOthersAt, first_rows, output, work.weight.rows, first_token, work.n}.finish();
      tensor_reads_follow();
      block_barrier();
    }
  }

  // ---- producing warps ----

  static constexpr int kLists = 2;  // of a tile, and of the next one, which are on their way meanwhile
  static_assert(kWholeTiles || kStages == 2 * kLists, "a list for each stage that a warp fills");

  // A warp fills every second stage: a tile of its row, and the warps of the first row X.
  static SPARSMITH_DEVICE void produce(const Work& work, const Output& output, int producer) {
    const scatter::Weight& weight = work.weight;
    const int row = producer % kRowTiles;
    Stage stage{producer / kRowTiles, 0};
    int column = stage.number;  // the warp's next one, of the present output
    bool waits = true;
    typename Entries::Places stored[kLists] = {};  // in the tiles of the warp's stages
    bool zeroed = kWholeTiles;
    SPARSMITH_ROLLED for (int index = work.first(); index < work.outputs(); index += work.step()) {
      int first_block = 0;
      int first_token = 0;
      work.place(index, first_block, first_token);
      if (!zeroed) {
        SPARSMITH_UNROLL for (int s = 0; s < kLists; ++s) {
          stored[s] = {};
          scatter::zero_tile(work.tile_at(producer / kRowTiles + 2 * s, row));
        }
        tensor_reads_follow();  // before this warp arrives anywhere
        zeroed = kParts == 1;   // partial sums take the place of tiles
      }
      const bool there = first_block + row < weight.row_blocks;
      const int count = column < work.columns ? (work.columns - column + 1) / 2 : 0;
      const int tiles = there ? count : 0;
      const int first = tiles > 0 ? (first_block + row) * weight.column_tiles + work.first_tile + column : 0;
      Entries lists[kLists];
      Cursor cursor(weight, first, tiles, lists[0].list);
      cursor.begin(lists[0].list);
      if (1 < tiles) cursor.prefetch_next();
      if (waits) {  // X may be read; the first entries are under way
        wait_for_previous();
        waits = false;
      }
      const int skipped = kWholeTiles ? 0 : stage.number / 2;  // so that list b is that of the warp's stage b
      if (skipped > 0) lists[1] = lists[0];
      SPARSMITH_ROLLED for (int t = -skipped; t < count; t += kLists) {
        SPARSMITH_UNROLL for (int b = 0; b < kLists; ++b) {
          if (t + b < 0) continue;
          if (t + b >= count) break;
          const Entries& present = lists[b];
          Entries& next = lists[(b + 1) % kLists];
          if (t + b + 1 < tiles) {
            cursor.load(next.list, present.list.words[0]);
            if (t + b + 2 < tiles) cursor.prefetch_next();
          }
          await(work.empty(stage.number), stage.parity ^ 1U);
          if (row == 0) bring_input(work, first_token, (work.first_tile + column) * kTileColumns, stage.number);
          if (there) {
            u8* tile = work.tile_at(stage.number, row);
            const u32 base = Entries::base(shared_offset(tile));
            if (kWholeTiles || stored[b].list.count > 0)
              scatter::clear_tile<kWholeTiles>(weight, tile, base, stored[b]);
            if constexpr (!kWholeTiles) stored[b] = present.places();
            present.put(weight, first + (t + b) * 2, base);
          }
          hand_over(work.tile_full(stage.number, row));
          stage.advance(2);
          column += 2;
        }
      }
      column -= work.columns;
      end_stages();
      add_parts(work, output, first_token);
    }
    if (waits) {
      wait_for_previous();
    }
  }

  // Half of the tokens to both blocks; or if X is not aligned, all of them to this one.
  static SPARSMITH_DEVICE void bring_input(const Work& work, int first_token, int column, int stage) {
    u8* to = work.input_at(stage);
    ArrivalBarrier* full = work.input_full(stage);
    if (work.input.aligned) {
      if (lane() == 0) {
        constexpr int kBoxTokens = kTokens / kBlocks;
        arrive_expecting(full, kInputBytes);
        const int first = Work::number() * kBoxTokens;
        box_copy(to + first * kTileColumns * 2, work.x_map, column, first_token + first, full,
                 ((1U << kBlocks) - 1) << Work::first_rank());
      }
      warp_barrier();
      return;
    }
    work.input.template put_boxes<kTokens, kTileColumns>(to, first_token, column);
    hand_over(full);
  }

  // ---- multiplying warpgroups ----

  static SPARSMITH_DEVICE void multiply(const Work& work, const Output& output, int warp) {
    const int row = warp / 4;
    const SwizzledRows tiles = swizzled_rows(shared_offset(work.tile_at(0, row)));
    const SwizzledRows inputs = swizzled_rows(shared_offset(work.input_at(0)));
    Stage stage;
    Sums sums;
    SPARSMITH_ROLLED for (int index = work.first(); index < work.outputs(); index += work.step()) {
      int first_block = 0;
      int first_token = 0;
      work.place(index, first_block, first_token);
      const bool there = first_block + row < work.weight.row_blocks;
      if constexpr (kParts > 1) load_first_rows(work, first_block);
      sums.clear();
      int last = -1;
      SPARSMITH_ROLLED for (int column = 0; column < work.columns; ++column) {
        await(work.input_full(stage.number), stage.parity);
        await(work.tile_full(stage.number, row), stage.parity);
        if (there) {
          warpgroup_multiply_begin();
          sums.multiply(advanced(tiles, stage.number * kRowTiles * scatter::kTileBytes),
                        advanced(inputs, stage.number * kInputBytes));
          warpgroup_multiply_commit();
          warpgroup_multiply_wait<1>();
        }
        if (last >= 0) give_back(work, last);
        last = stage.number;
        stage.advance();
      }
      warpgroup_multiply_wait();
      if (last >= 0) give_back(work, last);
      end_stages();
      const WarpPlace place{first_block + row, first_token, warp};
      if (!there || warpgroup_all(warp / 4, sums.finite())) {
        if (kParts > 1 || there) finish(work, output, sums, place);
      } else {
        finish_nonzeros(work, output, place);
      }
      add_parts(work, output, first_token);
    }
  }

  static SPARSMITH_DEVICE void load_first_rows(const Work& work, int first_block) {
    constexpr int kCount = kRowTiles * kBlockParts;
    if (thread_index() >= kCount) return;
    const int part = first_block * kBlockParts + thread_index();
    reinterpret_cast<u32*>(work.shared + kRowPartsAt)[thread_index()] = part < work.weight.row_blocks * kBlockParts
                                                                            ? load_cached(work.weight.row_parts + part)
                                                                            : static_cast<u32>(work.weight.rows);
  }

  // Both blocks may fill the stage again; the own one knows it first, so that the other block's next arrival there does
  // not overtake this one.
  static SPARSMITH_DEVICE void give_back(const Work& work, int stage) {
    if (lane() != 0) return;
    SPARSMITH_UNROLL for (int b = 0; b < kBlocks; ++b) {
      arrive_in_block(work.empty(stage), Work::first_rank() + (Work::number() + b) % kBlocks);
    }
  }

  // Of a warp's sums among the outputs.
  struct WarpPlace {
    int row_block;
    int first_token;
    int warp;
  };

  // The sums of all tokens become outputs, or partial sums.
  static SPARSMITH_DEVICE void finish(const Work& work, const Output& output, const Sums& sums,
                                      const WarpPlace& place) {
    if constexpr (kParts > 1) {
      sums.put_partials(reinterpret_cast<float*>(work.shared) + place.warp / 4 * 64, place.warp % 4);
    } else {
      outputs<Outputs>(work, output, place, place.first_token).store(sums.values);
    }
  }

  template <class Outputs_>
  static SPARSMITH_DEVICE Outputs_ outputs(const Work& work, const Output& output, const WarpPlace& place,
                                           int first_token) {
    return {work.shared + kSumsAt + place.warp * kWarpSumBytes,
            output,
            work.weight.rows,
            work.n,
            load_cached(work.weight.row_parts + place.row_block * kBlockParts + place.warp % 4),
            first_token};
  }

  // ---- what Inf and NaN take ----

  // The same without products of zeros, 32 tokens at a time: the first warp makes one tile after another dense, in the
  // place of sums that are stored, and all threads multiply.
  static SPARSMITH_DEVICE void finish_nonzeros(const Work& work, const Output& output, const WarpPlace& place) {
    u8* dense = work.shared + kSumsAt + place.warp / 4 * 4 * kWarpSumBytes;
    const u32 base = Entries::base(shared_offset(dense));
    const int row = place.warp % 4 * 16 + lane() / 4;
    SPARSMITH_ROLLED for (int part = 0; part < kTokens / kSumTokens; ++part) {
      const int first_token = place.first_token + part * kSumTokens;
      if (first_token >= work.n) break;
      FewSums sums;
      sums.clear();
      SPARSMITH_ROLLED for (int column = 0; column < work.columns; ++column) {
        warpgroup_barrier(place.warp / 4);
        if (place.warp % 4 == 0) {
          const int tile = place.row_block * work.weight.column_tiles + work.first_tile + column;
          Entries list;
          const u32* offset = work.weight.more_offsets + tile;
          list.list.turn_to(load_cached(offset), load_cached(offset + 1));
          scatter::zero_tile(dense);
          list.put_unloaded(work.weight, tile, base);
        }
        warpgroup_barrier(place.warp / 4);
        SPARSMITH_ROLLED for (int e = 0; e < kTileColumns; ++e) {
          const float w[2] = {element(dense, row, e), element(dense, row + 8, e)};
          if (w[0] == 0.0F && w[1] == 0.0F) continue;
          SPARSMITH_UNROLL for (int i = 0; i < kSumTokens / 4; ++i) {
            const int token = first_token + i / 2 * 8 + lane() % 4 * 2 + i % 2;
            const float x = work.input.element(token, (work.first_tile + column) * kTileColumns + e);
            SPARSMITH_UNROLL for (int r = 0; r < 2; ++r) {
              float& sum = sums.values[i / 2 * 4 + r * 2 + i % 2];
              if (w[r] != 0.0F) sum = multiply_add(w[r], x, sum);
            }
          }
        }
      }
      if constexpr (kParts > 1) {
        float* partials = reinterpret_cast<float*>(work.shared) + part * kSumTokens * Sums::kLine;
        sums.put_partials(partials + place.warp / 4 * 64, place.warp % 4);
      } else {
        warpgroup_barrier(place.warp / 4);
        outputs<FewOutputs>(work, output, place, first_token).store(sums.values);
      }
    }
  }

  // Of a dense tile.
  static SPARSMITH_DEVICE float element(const u8* dense, int row, int e) {
    const u8* at = dense + row * scatter::kLineBytes + (e / 8 ^ row % 8) * 16 + e % 8 * 2;
    return to_float(*reinterpret_cast<const typename Input::Value*>(at));
  }
};

}  // namespace sparsmith
