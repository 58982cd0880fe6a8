// Y = W X for a two_four weight and many tokens: warpgroups multiply it as stored on the sparse tensor cores of sm_90,
// two more warps bring strips of W and of X.
//
// A block owns kRowTiles panels of 64 rows, a warpgroup each, by kTokens tokens. A stage is a strip of 64 columns: X as
// a box (device/tensor_copies.cuh), and the strip of W of each panel as an array. Arrival barriers hand stages over.
// Blocks are persistent: while outputs are stored, the stages of the next ones are filled.
//
// Where there are few outputs, several blocks have the same rows and tokens, with a part of the columns each. If they
// are a cluster, they add up their sums (reduction/block_sums.cuh); otherwise another kernel does. Strips are
// multiplied in order: two runs give equal bits.
//
// A group with fewer than two nonzeros multiplies some X by 0, and 0 * Inf is NaN. So a warpgroup whose sums are not
// finite adds up the products of the elements that the weight holds.
//
// The grid's x runs over blocks, its z over parts of the columns.
#pragma once

#include "formats/two_four_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/warp_outputs.cuh"
#include "snippets/prolog/fragment_input.cuh"
#include "snippets/prolog/stage_cursor.cuh"
#include "snippets/prolog/two_four_tiles.cuh"
#include "snippets/reduction/block_sums.cuh"
#include "snippets/reduction/tile_sums.cuh"

namespace sparsmith {

// kStages: of X and W. kParts: of the columns, that a cluster adds up.
template <class Input, class Output, int kTokens, int kRowTiles, int kStages, int kParts>
struct TwoFourWgmmaKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTokens, 64, 128, 256)
  SPARSMITH_TUNE(kRowTiles, 1, 2)
  SPARSMITH_TUNE(kParts, 1, 2, 4)

  using Value = typename Input::Value;
  using Tiles = TwoFourTiles<Value, two_four::kPanelTiles>;
  using Sums = TileSums<Value, kTokens, kRowTiles>;
  using Outputs = WarpOutputs<Value, Output, kTokens, 4>;
  using FewOutputs = WarpOutputs<Value, Output, Outputs::kSumTokens, 4>;
  static constexpr int kMultipliers = 4 * kRowTiles;  // warps, the first ones
  // Two row tiles by 256 tokens leave warps too few registers for operands of the next strip: so there is a third
  // warpgroup, with two idle warps, that gives them some.
  static constexpr bool kMovesRegisters = kRowTiles * kTokens == 512;
  static constexpr int kThreads = (kMultipliers + (kMovesRegisters ? 4 : 2)) * 32;
  static_assert(!kMovesRegisters || kParts == 1, "idle warps add up no sums of parts");
  static constexpr int kMultiplierRegisters = 232;
  static constexpr int kOtherRegisters = 40;
  using Totals = BlockSums<Sums, Output, true, 1, kParts, kThreads>;

  // Shared memory: stages of X; stages of W; outputs of each multiplying warp; barriers; the first rows of the block's
  // parts. Where blocks share out the columns, partial sums and those of the other blocks take the place of all but the
  // last two.
  static constexpr int kColumns = two_four::kStripColumns;
  static constexpr int kInputBytes = kTokens * kColumns * 2;
  static constexpr int kStripsBytes = kRowTiles * two_four::kStripBytes;
  static constexpr int kStripsAt = kStages * kInputBytes;
  static constexpr int kOutputsAt = kStripsAt + kStages * kStripsBytes;
  static constexpr int kStagesEnd = kOutputsAt + (kParts > 1 ? 0 : kMultipliers * Outputs::kBytes);
  static constexpr int kSumsEnd = kParts > 1 ? Totals::kPartialBytes + Totals::kOtherBytes : 0;
  static constexpr int kBarriersAt = kStagesEnd > kSumsEnd ? kStagesEnd : kSumsEnd;
  static constexpr int kRowPartsAt = kBarriersAt + 2 * kStages * 8;
  static constexpr int kRowParts = Sums::kRows / scatter::kPartRows;
  static constexpr int kSharedBytes = kRowPartsAt + (kParts > 1 ? kRowParts * 4 : 0);

  // Multiplies strips [first_strip, end_strip). x_map: of the same X as `input`, if that is aligned.
  static SPARSMITH_DEVICE void run(const Tiles& tiles, const TensorMap& x_map, const Input& input, const Output& output,
                                   int rows, int first_strip, int end_strip, int n, bool written, u8* shared) {
    launch_dependents();
    const int end = end_strip > first_strip ? end_strip : first_strip;
    const Work work{tiles, x_map, input, rows, first_strip, end, n, shared};
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
      if constexpr (kMovesRegisters) take_registers<kMultiplierRegisters>();
      wait_for_previous();  // Y may be read
      multiply(work, output, warp);
    } else {
      if constexpr (kMovesRegisters) give_registers<kOtherRegisters>();
      if (warp == kMultipliers) {
        bring<Part::kStrips>(work, output);
      } else if (warp > kMultipliers + 1) {
        // idle
      } else if (!input.aligned) {
        bring<Part::kElements>(work, output);
      } else {
        bring<Part::kBoxes>(work, output);
      }
    }
  }

 private:
  using Stage = StageCursor<kStages>;
  static SPARSMITH_DEVICE int lane() { return lane_index(); }

  // The outputs of this block, one after the other, and its stages, which all roles count alike.
  struct Work {
    const Tiles& tiles;
    const TensorMap& x_map;
    const Input& input;
    int rows;
    int first_strip;
    int end_strip;
    int n;
    u8* shared;

    SPARSMITH_DEVICE int panels() const { return (rows + two_four::kPanelRows - 1) / two_four::kPanelRows; }
    SPARSMITH_DEVICE int groups() const { return (panels() + kRowTiles - 1) / kRowTiles; }
    SPARSMITH_DEVICE int token_tiles() const { return (n + kTokens - 1) / kTokens; }
    SPARSMITH_DEVICE int outputs() const { return groups() * token_tiles(); }

    // Blocks that run at the same time share rows and tokens: outputs go along the tokens of kTogether groups.
    SPARSMITH_DEVICE void place(int index, int& first_panel, int& first_token) const {
      constexpr int kTogether = 16;
      const int block = index / (kTogether * token_tiles());
      const int in_block = index - block * kTogether * token_tiles();
      const int left = groups() - block * kTogether;
      const int together = left < kTogether ? left : kTogether;
      first_panel = (block * kTogether + in_block % together) * kRowTiles;
      first_token = in_block / together * kTokens;
    }

    SPARSMITH_DEVICE ArrivalBarrier* full(int stage) const {
      return reinterpret_cast<ArrivalBarrier*>(shared + kBarriersAt) + stage;
    }
    SPARSMITH_DEVICE ArrivalBarrier* empty(int stage) const { return full(stage) + kStages; }
    SPARSMITH_DEVICE u8* input_at(int stage) const { return shared + stage * kInputBytes; }
    SPARSMITH_DEVICE u8* strip_at(int stage, int row_tile) const {
      return shared + kStripsAt + stage * kStripsBytes + row_tile * two_four::kStripBytes;
    }
  };

  // For blocks that share out the columns: all threads meet when no stage is needed any more, and partial sums may take
  // their place.
  static SPARSMITH_DEVICE void end_stages() {
    if constexpr (kParts > 1) block_barrier();
  }
  // All threads make outputs of the partial sums. Stages may be filled again.
  static SPARSMITH_DEVICE void add_parts(const Work& work, const Output& output, int first_token) {
    if constexpr (kParts > 1) {
      block_barrier();
      cluster_arrive();  // the other block's sums may take the place of stages
      const u32* first_rows = reinterpret_cast<const u32*>(work.shared + kRowPartsAt);
      Totals{work.shared, work.shared + Totals::kPartialBytes, first_rows, output, work.rows, first_token, work.n}
          .finish();
      tensor_reads_follow();
      block_barrier();
    }
  }

  // ---- warps that bring W and X ----

  // What a warp brings: strips of W; X, by boxes; or X that is not aligned for boxes. One lane starts copies, all lanes
  // store elements.
  enum class Part { kStrips, kBoxes, kElements };

  template <Part kPart>
  static SPARSMITH_DEVICE void bring(const Work& work, const Output& output) {
    if constexpr (kPart != Part::kStrips) {
      wait_for_previous();  // X may be read; the first strips are under way
    }
    Stage stage;
    SPARSMITH_ROLLED for (int index = block_index_x(); index < work.outputs(); index += grid_size_x()) {
      int first_panel = 0;
      int first_token = 0;
      work.place(index, first_panel, first_token);
      if (kPart == Part::kElements || lane() == 0) {
        SPARSMITH_ROLLED for (int strip = work.first_strip; strip < work.end_strip; ++strip) {
          await(work.empty(stage.number), stage.parity ^ 1U);
          if constexpr (kPart == Part::kStrips) {
            bring_strips(work, first_panel, strip, stage.number);
          } else {
            work.input.template bring<kTokens, kColumns, kPart == Part::kBoxes>(
                work.input_at(stage.number), work.x_map, first_token, strip * kColumns, work.full(stage.number));
          }
          stage.advance();
        }
      }
      warp_barrier();
      end_stages();
      if constexpr (kParts > 1) {
        wait_for_previous();  // Y may be read
      }
      add_parts(work, output, first_token);
    }
  }

  static SPARSMITH_DEVICE void bring_strips(const Work& work, int first_panel, int strip, int stage) {
    ArrivalBarrier* full = work.full(stage);
    const int panels = work.panels() - first_panel < kRowTiles ? work.panels() - first_panel : kRowTiles;
    arrive_expecting(full, panels * two_four::kStripBytes);
    SPARSMITH_UNROLL for (int r = 0; r < kRowTiles; ++r) {
      if (r >= panels) continue;
      array_copy(work.strip_at(stage, r), work.tiles.at(first_panel + r, strip), two_four::kStripBytes, full);
    }
  }

  // ---- multiplying warpgroups ----

  static SPARSMITH_DEVICE void multiply(const Work& work, const Output& output, int warp) {
    Stage stage;
    Sums sums;
    SPARSMITH_ROLLED for (int index = block_index_x(); index < work.outputs(); index += grid_size_x()) {
      int first_panel = 0;
      int first_token = 0;
      work.place(index, first_panel, first_token);
      const Place place{first_panel + warp / 4, first_token, warp};
      if constexpr (kParts > 1) put_first_rows(work, first_panel);
      const bool there = place.panel < work.panels();
      sums.clear();
      if (there) {
        multiply_strips(work, place, stage, sums);
      } else {
        skip_strips(work, stage);
      }
      end_stages();
      if (!there || warpgroup_all(warp / 4, sums.finite())) {
        if (kParts > 1 || there) finish(work, output, sums, place);
      } else {
        finish_nonzeros(work, output, place);
      }
      add_parts(work, output, first_token);
    }
  }

  // Of a warp among the outputs.
  struct Place {
    int panel;
    int first_token;
    int warp;
  };

  static SPARSMITH_DEVICE void multiply_strips(const Work& work, const Place& place, Stage& stage, Sums& sums) {
    const SwizzledRows inputs = swizzled_rows(shared_offset(work.input_at(0)));
    const typename Tiles::WideTile tile(work.strip_at(0, place.warp / 4) + place.warp % 4 * two_four::kTileBytes);
    typename Sums::SparseOperands operands[2];  // of the strip that is multiplied, and of the next one
    int last = -1;
    const auto multiply_next = [&](typename Sums::SparseOperands& own) {
      await(work.full(stage.number), stage.parity);
      tile.load(stage.number * kStripsBytes, own);
      warpgroup_multiply_begin();
      sums.multiply(own, advanced(inputs, stage.number * kInputBytes));
      warpgroup_multiply_commit();
      warpgroup_multiply_wait<1>();
      if (last >= 0) give_back(work, last);
      last = stage.number;
      stage.advance();
    };
    const int count = work.end_strip - work.first_strip;
    SPARSMITH_ROLLED for (int pair = 0; pair < count / 2; ++pair) {
      multiply_next(operands[0]);
      multiply_next(operands[1]);
    }
    if (count % 2 != 0) multiply_next(operands[0]);
    warpgroup_multiply_wait();
    if (last >= 0) give_back(work, last);
  }

  // For a warpgroup without a panel.
  static SPARSMITH_DEVICE void skip_strips(const Work& work, Stage& stage) {
    SPARSMITH_ROLLED for (int strip = work.first_strip; strip < work.end_strip; ++strip) {
      await(work.full(stage.number), stage.parity);
      give_back(work, stage.number);
      stage.advance();
    }
  }

  // The stage may be filled again.
  static SPARSMITH_DEVICE void give_back(const Work& work, int stage) {
    warp_barrier();  // all lanes have read the strip
    if (lane() == 0) arrive(work.empty(stage));
  }

  static SPARSMITH_DEVICE void put_first_rows(const Work& work, int first_panel) {
    if (thread_index() >= kRowParts) return;
    const int row = first_panel * two_four::kPanelRows + thread_index() * scatter::kPartRows;
    reinterpret_cast<u32*>(work.shared + kRowPartsAt)[thread_index()] =
        static_cast<u32>(row < work.rows ? row : work.rows);
  }

  // The sums of all tokens become outputs, or partial sums.
  static SPARSMITH_DEVICE void finish(const Work& work, const Output& output, const Sums& sums, const Place& place) {
    if constexpr (kParts > 1) {
      sums.put_partials(reinterpret_cast<float*>(work.shared) + place.warp / 4 * 64, place.warp % 4);
    } else {
      outputs<Outputs>(work, output, place, place.first_token).store(sums.values);
    }
  }

  template <class Outputs_>
  static SPARSMITH_DEVICE Outputs_ outputs(const Work& work, const Output& output, const Place& place,
                                           int first_token) {
    const int first_row = place.panel * two_four::kPanelRows + place.warp % 4 * Outputs::kRows;
    return {work.shared + kOutputsAt + place.warp * Outputs::kBytes,
            output,
            work.rows,
            work.n,
            static_cast<u32>(first_row),
            first_token};
  }

  // Rare, so it uses loops: the products of what the weight holds, 32 tokens at a time.
  static SPARSMITH_DEVICE void finish_nonzeros(const Work& work, const Output& output, const Place& place) {
    constexpr int kTogether = FewOutputs::kSumTokens;
    const int own = lane() / 4;
    SPARSMITH_ROLLED for (int part = 0; part < kTokens / kTogether; ++part) {
      const int first_token = place.first_token + part * kTogether;
      TileSums<Value, kTogether, kRowTiles> sums;
      sums.clear();
      SPARSMITH_ROLLED for (int strip = work.first_strip; strip < work.end_strip; ++strip) {
        const u8* tile = work.tiles.at(place.panel, strip) + place.warp % 4 * two_four::kTileBytes;
        SPARSMITH_ROLLED for (int e = 0; e < kColumns; ++e) {
          const Value w[2] = {Tiles::element(tile, own, e), Tiles::element(tile, own + 8, e)};
          sums.add_column(w, two_four::kNothing, work.input, first_token, strip * kColumns + e);
        }
      }
      if constexpr (kParts > 1) {
        float* partials = reinterpret_cast<float*>(work.shared) + part * kTogether * Sums::kLine;
        sums.put_partials(partials + place.warp / 4 * 64, place.warp % 4);
      } else {
        outputs<FewOutputs>(work, output, place, first_token).store(sums.values);
      }
    }
  }
};

}  // namespace sparsmith
