// Y = W X on the tensor cores of sm_90, with W stored sparse: each of a warpgroup's four warps scatters the nonzeros of
// a tile of W into its zeroed tile in shared memory. The warpgroup multiplies all four tiles by 64 tokens, and clears
// them.
//
// A block owns kRowTiles row blocks of the scatter format, 64 rows each. Its warpgroups share out the columns. They
// need no barrier among them until the end. Then their sums meet in shared memory and are added in the order of
// warpgroups: two runs give equal bits. Warp kRowTiles c + r of a warpgroup scatters tiles of row block r: the c-th of
// 4 / kRowTiles tiles side by side. X comes by asynchronous copies, once for kRowTiles tiles; a warp takes 16 of its
// tokens.
//
// Tensor cores multiply zeros as well, and 0 * Inf is NaN. If sums are not finite, the warpgroup multiplies its tiles
// again, with the products of nonzeros alone. So a zero weight contributes nothing, whatever X holds.
//
// The grid's x runs over row blocks, its y over token tiles; each strides if it is smaller than needed. Its z runs over
// parts of the columns. The blocks of a cluster add up the sums of parts (reduction/block_sums.cuh), or another kernel
// does.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/scatter_entries.cuh"
#include "snippets/prolog/staged_fragments.cuh"
#include "snippets/reduction/block_sums.cuh"
#include "snippets/reduction/warpgroup_sums.cuh"

namespace sparsmith {

// kWholeTiles: tiles are cleared as a whole, not entry by entry; so the registers of entries are free for the next tile
// as soon as they have been stored. kTakenTiles: column tiles of a step whose X a warp holds in registers. kBuffers:
// tiles for which a warp has shared memory; with 2 of them, and X of two steps, it scatters a tile while the previous
// one is multiplied. kBlocks: blocks of a cluster along z, which add up their sums; 1: no cluster.
template <class Entries, class Input, class Output, int kRowTiles, int kWarpgroups, bool kWholeTiles, int kTakenTiles,
          int kBuffers, int kBlocks>
struct WgmmaKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kRowTiles, 1, 2, 4)
  SPARSMITH_TUNE(kWarpgroups, 1, 2, 3, 4)
  SPARSMITH_TUNE(kTakenTiles, 1, 2, 4)
  SPARSMITH_TUNE(kBuffers, 1, 2)
  SPARSMITH_TUNE(kBlocks, 1, 2, 4)

  using Sums = WarpgroupSums<typename Input::Value, kRowTiles>;
  using Totals = BlockSums<Sums, Output, Input::kTokenMajor, kWarpgroups, kBlocks>;
  static constexpr int kTokens = Sums::kTokens;
  static constexpr int kGroupWarps = 4;
  static constexpr int kColumnTiles = kGroupWarps / kRowTiles;  // of a step
  static constexpr int kTileColumns = 64;
  static_assert(kTakenTiles <= kColumnTiles, "X is held for a step at most");
  using Staged = StagedFragments<Input, kColumnTiles * kTileColumns, kTakenTiles * kTileColumns, kBuffers>;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr bool kPrefetch = kWarpgroups < 4;  // four hide what is not in L2, and have no registers to spare

  // Shared memory: tiles and the warps' X, or partial sums; then, in a cluster, the sums of the other blocks; the first
  // rows of the row blocks' parts; one word per warp.
  static constexpr int kStepBytes = kGroupWarps * scatter::kTileBytes;  // tiles of a warpgroup
  static constexpr int kGroupTileBytes = kBuffers * kStepBytes;
  static constexpr int kInputAt = kWarpgroups * kGroupTileBytes;
  static constexpr int kInputEnd = kInputAt + kWarpgroups * kGroupWarps * Staged::kBytes;
  static constexpr int kOthersAt = kInputEnd > Totals::kPartialBytes ? kInputEnd : Totals::kPartialBytes;
  static constexpr int kRowPartsAt = kOthersAt + Totals::kOtherBytes;
  static constexpr int kRowParts = kRowTiles * 64 / scatter::kPartRows;
  static constexpr int kFiniteAt = kRowPartsAt + kRowParts * 4;
  static constexpr int kSharedBytes = kFiniteAt + kWarpgroups * kGroupWarps * 4;

  // Multiplies tiles [first_tile, end_tile) of each row block.
  static SPARSMITH_DEVICE void run(const scatter::Weight& weight, const Input& input, const Output& output,
                                   int first_tile, int end_tile, int n, u8* shared) {
    launch_dependents();
    const int warp = warp_index();
    const int group = warp / kGroupWarps;
    const int tiles = end_tile > first_tile ? end_tile - first_tile : 0;
    const int steps = (tiles + kColumnTiles - 1) / kColumnTiles;
    const int panels = (weight.row_blocks + kRowTiles - 1) / kRowTiles;
    u32* first_rows = reinterpret_cast<u32*>(shared + kRowPartsAt);
    float* partials = reinterpret_cast<float*>(shared);
    for (int first_token = block_index_y() * kTokens; first_token < n; first_token += grid_size_y() * kTokens) {
      for (int panel = block_index_x(); panel < panels; panel += grid_size_x()) {
        const Share share{weight,
                          input,
                          panel * kRowTiles,
                          first_token + warp % kGroupWarps * Sums::kWarpTokens,
                          n,
                          first_tile + group * steps / kWarpgroups * kColumnTiles,
                          end_tile,
                          (group + 1) * steps / kWarpgroups - group * steps / kWarpgroups};
        if constexpr (kBlocks > 1) cluster_arrive_relaxed();  // it runs, and needs no other sums any more
        if (scatter::copy_first_rows<kRowTiles, kRowParts / kRowTiles>(weight, panel * kRowTiles, first_rows))
          async_commit();
        Sums sums;
        accumulate(share, warp, shared, sums);
        block_barrier();  // nobody needs a tile any more
        // If outputs are token-major, no thread needs the sums of a warp without tokens.
        if (!Input::kTokenMajor || share.first_token < n)
          sums.put_partials(partials + group * (Sums::kPartialBytes / 4), warp % kGroupWarps);
        async_wait<0>();
        block_barrier();
        Totals{shared, shared + kOthersAt, first_rows, output, weight.rows, first_token, n}.finish();
        block_barrier();  // the partial sums have been read: tiles may take their place
      }
    }
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  using Cursor = scatter::TileCursor<typename Entries::Words, kColumnTiles>;
  using Fragments = typename Staged::Fragments;

  static SPARSMITH_DEVICE int lane() { return scatter::lane_of_warp(); }

  // The tiles that a warpgroup multiplies: in each step the next kColumnTiles tiles of each of its row blocks.
  struct Share {
    const scatter::Weight& weight;
    const Input& input;
    int first_block;
    int first_token;  // of this warp
    int n;
    int first_tile;
    int end_tile;
    int steps;
  };

  // The tiles that one of its warps scatters: every kColumnTiles-th tile, from number `first` on.
  struct Tiles {
    const scatter::Weight& weight;
    int first = 0;
    int count = 0;  // at most one a step
    int group;
    u8* own;       // this warp's, of the first buffer
    u8* of_group;  // those of the warpgroup

    SPARSMITH_DEVICE Tiles(const Share& share, int warp, u8* shared)
        : weight(share.weight),
          group(warp / kGroupWarps),
          own(shared + group * kGroupTileBytes + warp % kGroupWarps * scatter::kTileBytes),
          of_group(shared + group * kGroupTileBytes) {
      const int block = share.first_block + warp % kRowTiles;
      const int begin = share.first_tile + warp % kGroupWarps / kRowTiles;
      const int left = (share.end_tile - begin + kColumnTiles - 1) / kColumnTiles;
      if (block < weight.row_blocks && begin < share.end_tile) {
        first = block * weight.column_tiles + begin;
        count = left < share.steps ? left : share.steps;
      }
    }
    SPARSMITH_DEVICE int number(int step) const { return first + step * kColumnTiles; }
    // The places where a step's tiles are made dense: all tiles of the warpgroup, and the tile of this warp.
    SPARSMITH_DEVICE u8* of_step(int step) const { return of_group + buffer(step); }
    SPARSMITH_DEVICE u8* tile(int step) const { return own + buffer(step); }
    static SPARSMITH_DEVICE int buffer(int step) {
      return static_cast<int>(static_cast<u32>(step) % kBuffers * kStepBytes);
    }
    SPARSMITH_DEVICE u32 base(int step) const { return Entries::base(shared_offset(tile(step))); }
  };

  static SPARSMITH_DEVICE void accumulate(const Share& share, int warp, u8* shared, Sums& sums) {
    const Tiles tiles(share, warp, shared);
    sums.clear();
    Entries list;
    Cursor cursor(tiles.weight, tiles.first, tiles.count, list.list);
    Staged x(share.input, share.first_token, share.first_tile * kTileColumns,
             shared + kInputAt + warp * Staged::kBytes);
    SPARSMITH_UNROLL for (int b = 0; b < kBuffers; ++b) scatter::zero_tile(tiles.tile(b));
    const bool tokens = share.first_token < share.n;  // of this warp's there are any
    wait_for_previous();                              // the first entries are under way
    SPARSMITH_UNROLL for (int s = 0; s < kBuffers; ++s) ask(share, s, tokens, x);
    cursor.begin(list.list);
    if (kPrefetch && 1 < tiles.count) cursor.prefetch_next();
    if constexpr (kBuffers > 1) {
      accumulate_ahead(share, tiles, tokens, cursor, list, x, sums);
    } else if constexpr (kWholeTiles) {
      SPARSMITH_ROLLED for (int t = 0; t < share.steps; ++t) step(share, tiles, t, tokens, cursor, list, list, x, sums);
    } else {
      Entries odd;
      SPARSMITH_ROLLED for (int t = 0; t < share.steps; t += 2) {
        step(share, tiles, t, tokens, cursor, list, odd, x, sums);
        if (t + 1 < share.steps) step(share, tiles, t + 1, tokens, cursor, odd, list, x, sums);
      }
    }
    if (!all_finite(sums, tiles.group, warp, shared)) accumulate_nonzeros(share, tiles, sums);
  }

  static SPARSMITH_DEVICE void ask(const Share& share, int step, bool tokens, Staged& x) {
    if (tokens && step < share.steps) {
      x.ask(step);
    } else if constexpr (kBuffers > 1) {
      x.asked();
    }
  }

  // Multiplies the tiles of step t, this warp's from `list`, while the entries of the next step arrive.
  static SPARSMITH_DEVICE void step(const Share& share, const Tiles& tiles, int t, bool tokens, Cursor& cursor,
                                    Entries& list, Entries& next, Staged& x, Sums& sums) {
    const u32 base = tiles.base(t);
    const bool mine = t < tiles.count;
    if (mine) list.put(tiles.weight, tiles.number(t), base);
    if (tokens) x.wait();
    Fragments fragments = {};
    if (tokens) x.take(t, 0, fragments);
    tensor_reads_follow();
    warpgroup_barrier(tiles.group);
    multiply(tiles, t, tokens, x, fragments, sums);
    // Now, while tensor cores work: the fence that comes before them waits for loads on their way. So they have little
    // time, and what they ask for had better be in L2.
    if (t + 1 < tiles.count) cursor.load(next.list, list.list.words[0]);
    if (kPrefetch && t + 2 < tiles.count) cursor.prefetch_next();
    ask(share, t + 1, tokens, x);
    warpgroup_multiply_wait();
    warpgroup_barrier(tiles.group);  // no warp's multiplication reads the tiles any more
    if (mine) clear(tiles, t, base, list);
  }

  // With two buffers: while tensor cores multiply a tile, the previous one is cleared and the next one takes its place.
  static SPARSMITH_DEVICE void accumulate_ahead(const Share& share, const Tiles& tiles, bool tokens, Cursor& cursor,
                                                Entries& next, Staged& x, Sums& sums) {
    if (0 < tiles.count) next.put(tiles.weight, tiles.number(0), tiles.base(0));
    tensor_reads_follow();
    Entries multiplied;  // what is left of them is what clears them
    Entries scattered = next;
    if (1 < tiles.count) cursor.load(next.list, scattered.list.words[0]);
    if (kPrefetch && 2 < tiles.count) cursor.prefetch_next();
    SPARSMITH_ROLLED for (int t = 0; t < share.steps; ++t) {
      if (tokens) x.wait();
      Fragments fragments = {};
      if (tokens) x.take(t, 0, fragments);
      warpgroup_barrier(tiles.group);  // the tiles are there; no warp's multiplication reads those before any more
      multiply(tiles, t, tokens, x, fragments, sums);
      if (0 < t && t <= tiles.count) clear(tiles, t - 1, tiles.base(t - 1), multiplied);
      if (t + 1 < tiles.count) next.put(tiles.weight, tiles.number(t + 1), tiles.base(t + 1));
      const bool asks = tokens && t + 2 < share.steps;
      const bool copies = x.copies();
      if (asks && !copies) x.load_elements(t + 2);
      tensor_reads_follow();
      multiplied = scattered;
      scattered = next;
      // Behind the fence, which would wait for loads in flight.
      if (t + 2 < tiles.count) cursor.load(next.list, scattered.list.words[0]);
      if (kPrefetch && t + 3 < tiles.count) cursor.prefetch_next();
      if (asks && copies) x.copy(t + 2);
      x.asked();
      warpgroup_multiply_wait();
    }
  }

  static SPARSMITH_DEVICE void clear(const Tiles& tiles, int step, u32 base, const Entries& list) {
    scatter::clear_tile<kWholeTiles>(tiles.weight, tiles.tile(step), base, list);
  }

  // Starts the products of step t, the first of them with `fragments`; all but the last kTakenTiles column tiles' have
  // ended then.
  static SPARSMITH_DEVICE void multiply(const Tiles& tiles, int t, bool tokens, const Staged& x, Fragments& fragments,
                                        Sums& sums) {
    const SwizzledRows rows = swizzled_rows(shared_offset(tiles.of_step(t)));
    SPARSMITH_UNROLL for (int first = 0; first < kColumnTiles; first += kTakenTiles) {
      if (tokens && first > 0) x.take(t, first * kTileColumns, fragments);
      warpgroup_multiply_begin();
      SPARSMITH_UNROLL for (int c = 0; c < kTakenTiles; ++c) {
        sums.multiply(fragments, 2 * c, advanced(rows, (first + c) * kRowTiles * scatter::kTileBytes));
      }
      warpgroup_multiply_commit();
      if (first + kTakenTiles < kColumnTiles) warpgroup_multiply_wait();
    }
  }

  // Whether the sums of all warps of the warpgroup are finite.
  static SPARSMITH_DEVICE bool all_finite(const Sums& sums, int group, int warp, u8* shared) {
    u32* finite = reinterpret_cast<u32*>(shared + kFiniteAt);
    const bool mine = sums.finite();
    if (lane() == 0) finite[warp] = mine ? 1 : 0;
    warpgroup_barrier(group);
    u32 all = 1;
    SPARSMITH_UNROLL for (int w = 0; w < kGroupWarps; ++w) all &= finite[group * kGroupWarps + w];
    return all != 0;
  }

  // The same sums, without products of zeros.
  static SPARSMITH_DEVICE void accumulate_nonzeros(const Share& share, const Tiles& tiles, Sums& sums) {
    sums.clear();
    if constexpr (kBuffers > 1) scatter::zero_tile(tiles.tile(share.steps - 1));  // which nobody has cleared
    SPARSMITH_ROLLED for (int t = 0; t < share.steps; ++t) {
      Entries list;
      if (t < tiles.count) {
        const u32* offset = tiles.weight.more_offsets + tiles.number(t);
        list.list.turn_to(load_cached(offset), load_cached(offset + 1));
        list.put_unloaded(tiles.weight, tiles.number(t), tiles.base(t));
      }
      warpgroup_barrier(tiles.group);
      multiply_nonzeros(share, t, tiles.of_step(t), sums);
      warpgroup_barrier(tiles.group);
      if (t < tiles.count) list.clear_unloaded(tiles.weight, tiles.number(t), tiles.base(t));
      warp_barrier();
    }
  }

  static SPARSMITH_DEVICE void multiply_nonzeros(const Share& share, int t, const u8* tiles, Sums& sums) {
    const int token = share.first_token + lane() / 4;
    SPARSMITH_ROLLED for (int i = 0; i < kColumnTiles * kTileColumns; ++i) {
      const int chunk = i / 8 % 8;
      const int column = (share.first_tile + t * kColumnTiles + i / kTileColumns) * kTileColumns + chunk / 4 * 32 +
                         i % 8 / 2 * 8 + chunk / 2 % 2 * 4 + chunk % 2 * 2 + i % 2;
      sums.multiply_nonzeros(tiles + i / kTileColumns * kRowTiles * scatter::kTileBytes, i % kTileColumns,
                             share.input.element(token, column), share.input.element(token + 8, column));
    }
  }
};

}  // namespace sparsmith
