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
// Multiplying warpgroups take registers that the producing one gives up.
//
// Tensor cores multiply zeros as well, and 0 * Inf is NaN. If the sums of a warpgroup are not finite, it adds the
// products of nonzeros alone instead. So a zero weight contributes nothing, whatever X holds.
//
// The grid's x runs over blocks, of two to a cluster.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/scatter_entries.cuh"
#include "snippets/reduction/tile_sums.cuh"

namespace sparsmith {

// Input: FragmentInput, for what boxes cannot bring. kStages: of X and W.
template <class Entries, class Input, class Output, int kTokens, int kStages>
struct CooperativeKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTokens, 128, 256)
  SPARSMITH_TUNE(kStages, 4, 6)

  static constexpr int kRowTiles = 2;     // of a block, one for each warpgroup that multiplies
  static constexpr int kBlocks = 2;       // of a cluster
  static constexpr int kMultipliers = 8;  // warps, the first ones
  static constexpr int kProducers = 4;
  static constexpr int kTileColumns = 64;
  static_assert(kStages % 2 == 0, "a stage's tiles are always made by the same warps");

  // Of the 504 registers that three threads, one of each warpgroup, begin with.
  static constexpr int kMultiplierRegisters = 176;
  static constexpr int kProducerRegisters = 504 - 2 * kMultiplierRegisters;
  // Whether registers hold the entries of two tiles. Then those of the next tile are on their way while a tile is made.
  static constexpr bool kAhead = 2 * Entries::Words::kHeld + 60 <= kProducerRegisters;

  using Sums = TileSums<typename Input::Value, kTokens, kRowTiles>;

  // Shared memory: stages of X; stages of W; for each multiplying warp the sums of 32 tokens, or for its warpgroup a
  // tile; barriers; twice, whether the sums of each multiplying warp are finite.
  static constexpr int kInputBytes = kTokens * kTileColumns * 2;
  static constexpr int kTilesAt = kStages * kInputBytes;
  static constexpr int kSumsAt = kTilesAt + kStages * kRowTiles * scatter::kTileBytes;
  static constexpr int kSumTokens = 32;
  static constexpr int kSumLine = 20;  // floats of a token's 16 rows, so that a warp's stores meet all banks
  static constexpr int kWarpSumBytes = kSumTokens * kSumLine * 4;
  static_assert(4 * kWarpSumBytes >= scatter::kTileBytes, "a warpgroup's sums leave room for a tile");
  static constexpr int kBarriersAt = kSumsAt + kMultipliers * kWarpSumBytes;
  static constexpr int kStageBarriers = 2 + kRowTiles;  // X is there; each row's tile is there; both have been read
  static constexpr int kMeetingsAt = kBarriersAt + kStages * kStageBarriers * 8;
  static constexpr int kFiniteAt = kMeetingsAt + kRowTiles * 8;
  static constexpr int kSharedBytes = kFiniteAt + 2 * kMultipliers * 4;

  // x_map: of the same X as `input`, if that is aligned.
  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const TensorMap& x_map, const Input& input,
                                   const Output& output, int n, u8* shared) {
    launch_dependents();
    const int warp = thread_index() / 32;
    const Work work{weight, x_map, input, n, shared};
    work.make_barriers();
    cluster_arrive();  // all blocks run, and see each other's barriers
    cluster_wait();
    if (warp < kMultipliers) {
      take_registers<kMultiplierRegisters>();
      wait_for_previous();  // Y may be read
      multiply(work, output, warp);
    } else {
      keep_registers<kProducerRegisters>();
      produce(work, warp - kMultipliers);
    }
    warp_barrier();
    cluster_arrive();  // no block ends while the other one brings it X, or arrives there
    cluster_wait();
  }

 private:
  using Cursor = scatter::TileCursor<typename Entries::Words, 2>;
  static SPARSMITH_DEVICE int lane() { return scatter::lane_of_warp(); }

  // The tiles of outputs of this block, one after the other, and its stages, which all roles count alike.
  struct Work {
    const scatter::Weight& weight;
    const TensorMap& x_map;
    const Input& input;
    int n;
    u8* shared;

    SPARSMITH_DEVICE int row_panels() const {
      return (weight.row_blocks + kBlocks * kRowTiles - 1) / (kBlocks * kRowTiles);
    }
    SPARSMITH_DEVICE int token_tiles() const { return (n + kTokens - 1) / kTokens; }
    SPARSMITH_DEVICE int outputs() const { return row_panels() * token_tiles(); }
    SPARSMITH_DEVICE int first() const { return block_index_x() / kBlocks; }
    SPARSMITH_DEVICE int step() const { return grid_size_x() / kBlocks; }

    // Clusters that run at the same time share rows and tokens: outputs go along the tokens of kPanels row panels.
    SPARSMITH_DEVICE void place(int index, int& first_block, int& first_token) const {
      constexpr int kPanels = 8;
      const int group = index / (kPanels * token_tiles());
      const int in_group = index - group * kPanels * token_tiles();
      const int left = row_panels() - group * kPanels;
      const int panels = left < kPanels ? left : kPanels;
      first_block = ((group * kPanels + in_group % panels) * kBlocks + cluster_rank()) * kRowTiles;
      first_token = in_group / panels * kTokens;
    }

    SPARSMITH_DEVICE ArrivalBarrier* barriers(int stage) const {
      return reinterpret_cast<ArrivalBarrier*>(shared + kBarriersAt) + stage * kStageBarriers;
    }
    SPARSMITH_DEVICE ArrivalBarrier* input_full(int stage) const { return barriers(stage); }
    SPARSMITH_DEVICE ArrivalBarrier* tile_full(int stage, int row) const { return barriers(stage) + 1 + row; }
    SPARSMITH_DEVICE ArrivalBarrier* empty(int stage) const { return barriers(stage) + 1 + kRowTiles; }
    SPARSMITH_DEVICE ArrivalBarrier* meeting(int row) const {
      return reinterpret_cast<ArrivalBarrier*>(shared + kMeetingsAt) + row;
    }
    SPARSMITH_DEVICE void make_barriers() const {
      if (thread_index() < kRowTiles) arrival_barrier_init(meeting(thread_index()), kMultipliers / kRowTiles);
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

  // A role's place in the sequence of stages.
  struct Stage {
    int number = 0;
    u32 parity = 0;

    SPARSMITH_DEVICE void advance(int by) {
      number += by;
      if (number < kStages) return;
      number -= kStages;
      parity ^= 1U;
    }
  };

  // Where the warps of a warpgroup wait for each other.
  struct Meeting {
    ArrivalBarrier* barrier;
    u32 parity = 0;

    SPARSMITH_DEVICE void meet() {
      warp_barrier();
      if (lane() == 0) arrive(barrier);
      await(barrier, parity);
      parity ^= 1U;
    }
  };

  // This warp's writes to shared memory are for tensor cores. Threads that wait at the barrier see them.
  static SPARSMITH_DEVICE void hand_over(ArrivalBarrier* full) {
    tensor_reads_follow();
    warp_barrier();
    if (lane() == 0) arrive(full);
    warp_barrier();  // it does not stand for what other lanes write from here on
  }

  // ---- producing warps ----

  static constexpr int kLists = kAhead ? 2 : 1;

  // A warp fills every second stage: a tile of its row, and the warps of the first row X.
  static SPARSMITH_DEVICE void produce(const Work& work, int producer) {
    const scatter::Weight& weight = work.weight;
    const int row = producer % kRowTiles;
    Stage stage{producer / kRowTiles, 0};
    int column = stage.number;  // the warp's next one, of the present output
    bool waits = true;
    SPARSMITH_ROLLED for (int index = work.first(); index < work.outputs(); index += work.step()) {
      int first_block = 0;
      int first_token = 0;
      work.place(index, first_block, first_token);
      const bool there = first_block + row < weight.row_blocks;
      const int columns = weight.column_tiles;
      const int count = column < columns ? (columns - column + 1) / 2 : 0;
      const int tiles = there ? count : 0;
      const int first = tiles > 0 ? (first_block + row) * columns + column : 0;
      Entries lists[kLists];
      Cursor cursor(weight, first, tiles, lists[0].list);
      cursor.begin(lists[0].list);
      if (1 < tiles) cursor.prefetch_next();
      if (waits) {  // X may be read; the first entries are under way
        wait_for_previous();
        waits = false;
      }
      SPARSMITH_ROLLED for (int t = 0; t < count; t += kLists) {
        SPARSMITH_UNROLL for (int b = 0; b < kLists; ++b) {
          if (t + b >= count) break;
          const Entries& present = lists[b];
          Entries& next = lists[(b + 1) % kLists];
          if (kAhead && t + b + 1 < tiles) request(cursor, present.list.words[0], next, t + b + 2 < tiles);
          await(work.empty(stage.number), stage.parity ^ 1U);
          if (row == 0) bring_input(work, first_token, column * kTileColumns, stage.number);
          if (there) {
            u8* tile = work.tile_at(stage.number, row);
            scatter::zero_tile(tile);
            present.put(weight, first + (t + b) * 2, Entries::base(shared_offset(tile)));
          }
          const u32 used = present.list.words[0];
          hand_over(work.tile_full(stage.number, row));
          // Behind the fence, which would wait for these loads.
          if (!kAhead && t + b + 1 < tiles) request(cursor, used, next, t + b + 2 < tiles);
          stage.advance(2);
          column += 2;
        }
      }
      column -= columns;
    }
    if (waits) {
      wait_for_previous();
    }
  }

  // Loads the next tile's entries, once the present tile's are there, and prefetches those of the tile behind it.
  static SPARSMITH_DEVICE void request(Cursor& cursor, u32 present, Entries& next, bool another) {
    cursor.load(next.list, present);
    if (another) cursor.prefetch_next();
  }

  // Half of the tokens to both blocks; or if X is not aligned, all of them to this one.
  static SPARSMITH_DEVICE void bring_input(const Work& work, int first_token, int column, int stage) {
    u8* to = work.input_at(stage);
    ArrivalBarrier* full = work.input_full(stage);
    if (work.input.aligned) {
      if (lane() == 0) {
        constexpr int kBoxes = kTokens / kBlocks / kBoxLines;
        arrive_expecting(full, kBlocks * kBoxes);
        SPARSMITH_UNROLL for (int b = 0; b < kBoxes; ++b) {
          const int box = cluster_rank() * kBoxes + b;
          box_copy(to + box * kBoxBytes, work.x_map, column, first_token + box * kBoxLines, full, (1U << kBlocks) - 1);
        }
      }
      warp_barrier();
      return;
    }
    // Eight tokens by 32 columns at a time: a lane's fragment is a chunk.
    SPARSMITH_ROLLED for (int i = 0; i < kTokens / 8; ++i) {
      const int token = i * 8 + lane() / 4;
      SPARSMITH_ROLLED for (int u = 0; u < 2; ++u) {
        u8* chunk = to + token * 128 + ((u * 4 + lane() % 4) ^ (token % 8)) * 16;
        *reinterpret_cast<typename Input::Fragment*>(chunk) = work.input.load(first_token + i * 8, column + u * 32);
      }
    }
    hand_over(full);
  }

  // ---- multiplying warpgroups ----

  static SPARSMITH_DEVICE void multiply(const Work& work, const Output& output, int warp) {
    const int row = warp / 4;
    const SwizzledRows tiles = swizzled_rows(shared_offset(work.tile_at(0, row)));
    const SwizzledRows inputs = swizzled_rows(shared_offset(work.input_at(0)));
    Stage stage;
    Meeting meeting{work.meeting(row)};
    Sums sums;
    SPARSMITH_ROLLED for (int index = work.first(); index < work.outputs(); index += work.step()) {
      int first_block = 0;
      int first_token = 0;
      work.place(index, first_block, first_token);
      const bool there = first_block + row < work.weight.row_blocks;
      sums.clear();
      int last = -1;
      SPARSMITH_ROLLED for (int column = 0; column < work.weight.column_tiles; ++column) {
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
        stage.advance(1);
      }
      warpgroup_multiply_wait();
      if (last >= 0) give_back(work, last);
      if (!there) continue;
      if (!all_finite(work, sums, warp, meeting))
        add_nonzeros(work, sums, first_block + row, first_token, warp, meeting);
      store(work, output, sums, first_block + row, first_token, warp);
    }
  }

  // Both blocks may fill the stage again.
  static SPARSMITH_DEVICE void give_back(const Work& work, int stage) {
    if (lane() < kBlocks) arrive_in_block(work.empty(stage), lane());
  }

  // Outputs leave through the warp's own shared memory, 32 tokens at a time: a lane takes eight rows of a token.
  static SPARSMITH_DEVICE void store(const Work& work, const Output& output, const Sums& sums, int row_block,
                                     int first_token, int warp) {
    constexpr int kBlockParts = 64 / scatter::kPartRows;
    const u32 first_row = load_cached(work.weight.row_parts + row_block * kBlockParts + warp % 4);
    const bool whole = output.template takes_vectors<kRunRows>() && first_token + kTokens <= work.n &&
                       first_row + scatter::kPartRows <= static_cast<u32>(work.weight.rows);
    if (whole) {
      store_part<true>(work, output, sums, first_row, first_token, warp);
    } else {
      store_part<false>(work, output, sums, first_row, first_token, warp);
    }
  }

  static constexpr int kRunRows = 8;  // of a lane
  template <bool kWhole>
  static SPARSMITH_DEVICE void store_part(const Work& work, const Output& output, const Sums& sums, u32 first_row,
                                          int first_token, int warp) {
    constexpr int kSteps = kSumTokens / 16;
    float* own = reinterpret_cast<float*>(work.shared + kSumsAt + warp * kWarpSumBytes);
    const u32 run_row = first_row + lane() % 2 * kRunRows;
    SPARSMITH_UNROLL for (int part = 0; part < kTokens / kSumTokens; ++part) {
      SPARSMITH_UNROLL for (int i = 0; i < kSumTokens / 2; ++i) {
        const int token = i / 4 * 8 + lane() % 4 * 2 + i % 2;
        own[token * kSumLine + lane() / 4 + i / 2 % 2 * 8] = sums.values[part * kSumTokens / 2 + i];
      }
      warp_barrier();
      typename Output::template Finished<kRunRows> finished[kSteps];
      u32 rows[kSteps];
      SPARSMITH_UNROLL for (int s = 0; s < kSteps; ++s) {
        const int token = s * 16 + lane() / 2;
        const auto* run = reinterpret_cast<const Vector<float, 4>*>(own + token * kSumLine + lane() % 2 * kRunRows);
        float values[kRunRows];
        SPARSMITH_UNROLL for (int v = 0; v < kRunRows / 4; ++v) {
          const Vector<float, 4> quad = run[v];
          SPARSMITH_UNROLL for (int k = 0; k < 4; ++k) values[v * 4 + k] = quad[k];
        }
        const int y_token = first_token + part * kSumTokens + token;
        rows[s] = kWhole || y_token < work.n ? run_row : static_cast<u32>(work.weight.rows);
        output.template finish_rows<kRunRows, kWhole>(rows[s], work.weight.rows, y_token, values, finished[s]);
      }
      SPARSMITH_UNROLL for (int s = 0; s < kSteps; ++s) {
        output.template store_rows<kRunRows, kWhole>(
            rows[s], work.weight.rows, first_token + part * kSumTokens + s * 16 + lane() / 2, finished[s]);
      }
      warp_barrier();
    }
  }

  // ---- what Inf and NaN take ----

  // Whether all sums of the warpgroup are finite.
  static SPARSMITH_DEVICE bool all_finite(const Work& work, const Sums& sums, int warp, Meeting& meeting) {
    // Two places by turns: before one is written again, all have met elsewhere.
    u32* finite =
        reinterpret_cast<u32*>(work.shared + kFiniteAt) + (warp / 4 * 2 + static_cast<int>(meeting.parity)) * 4;
    const bool own = sums.finite();
    if (lane() == 0) finite[warp % 4] = own ? 1 : 0;
    meeting.meet();
    return (finite[0] & finite[1] & finite[2] & finite[3]) != 0;
  }

  // The same sums without products of zeros: the first warp makes one tile after another dense, in the place of sums
  // that are stored, and all threads multiply.
  static SPARSMITH_DEVICE void add_nonzeros(const Work& work, Sums& sums, int row_block, int first_token, int warp,
                                            Meeting& meeting) {
    u8* dense = work.shared + kSumsAt + warp / 4 * 4 * kWarpSumBytes;
    const u32 base = Entries::base(shared_offset(dense));
    const int row = warp % 4 * 16 + lane() / 4;
    sums.clear();
    SPARSMITH_ROLLED for (int column = 0; column < work.weight.column_tiles; ++column) {
      if (warp % 4 == 0) {
        const int tile = row_block * work.weight.column_tiles + column;
        Entries list;
        const u32* offset = work.weight.more_offsets + tile;
        list.list.turn_to(load_cached(offset), load_cached(offset + 1));
        scatter::zero_tile(dense);
        list.put_unloaded(work.weight, tile, base);
      }
      meeting.meet();
      SPARSMITH_ROLLED for (int e = 0; e < kTileColumns; ++e) {
        const float w[2] = {element(dense, row, e), element(dense, row + 8, e)};
        if (w[0] == 0.0F && w[1] == 0.0F) continue;
        SPARSMITH_UNROLL for (int i = 0; i < kTokens / 4; ++i) {
          const int token = first_token + i / 2 * 8 + lane() % 4 * 2 + i % 2;
          const float x = work.input.element(token, column * kTileColumns + e);
          SPARSMITH_UNROLL for (int r = 0; r < 2; ++r) {
            float& sum = sums.values[i / 2 * 4 + r * 2 + i % 2];
            if (w[r] != 0.0F) sum = multiply_add(w[r], x, sum);
          }
        }
      }
      meeting.meet();
    }
  }

  // Of a dense tile.
  static SPARSMITH_DEVICE float element(const u8* dense, int row, int e) {
    const u8* at = dense + row * scatter::kLineBytes + (e / 8 ^ row % 8) * 16 + e % 8 * 2;
    return to_float(*reinterpret_cast<const typename Input::Value*>(at));
  }
};

}  // namespace sparsmith
