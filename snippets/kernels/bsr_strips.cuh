// Y = W X for a bsr_strips weight (formats/bsr_strips_layout.h) and many tokens: X passes through shared memory in
// strips, once for all rows of a block of threads, and each warp multiplies those columns of a strip that its rows
// need.
//
// A block of threads owns kWarps panels of W by kTokens tokens, each of its warps one panel. A stage is a strip of 128
// columns of X, as two boxes (device/tensor_copies.cuh). A warp reads the steps of its panel from global memory, some
// ahead, and the columns of X that a step names from the stage. Arrival barriers hand stages over. Blocks of threads
// are persistent: while outputs are stored, the stages of the next ones are filled.
//
// Where there are few outputs, the blocks of a cluster have the same rows and tokens, with a part of the columns each,
// and add up their sums (reduction/block_sums.cuh). Steps are multiplied in order: two runs give equal bits.
//
// Tensor cores also multiply elements that the weight does not hold, and 0 * Inf is NaN. So a warp whose sums are not
// finite adds up the products of the elements that the weight holds.
//
// The grid's x runs over blocks, its z over parts of the columns.
#pragma once

#include "formats/bsr_strips_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/warp_outputs.cuh"
#include "snippets/prolog/fragment_input.cuh"
#include "snippets/prolog/stage_cursor.cuh"
#include "snippets/prolog/strip_steps.cuh"
#include "snippets/reduction/block_sums.cuh"
#include "snippets/reduction/tile_sums.cuh"

namespace sparsmith {

// kWarps: that multiply. kStages: strips of X. kParts: of the columns, that a cluster adds up.
template <class Steps, class Input, class Output, int kTokens, int kWarps, int kStages, int kParts>
struct BsrStripsKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kTokens, 64, 128)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)
  SPARSMITH_TUNE(kParts, 1, 2)

  using Value = typename Input::Value;
  static constexpr int kTiles = Steps::kTiles;
  static constexpr int kRows = kWarps * kTiles * bsr_strips::kTileRows;
  using Sums = TileSums<Value, kTokens, kRows / 64>;  // of a tile
  using FewSums = TileSums<Value, 32, kRows / 64>;
  using Outputs = WarpOutputs<Value, Output, kTokens, 1>;
  using FewOutputs = WarpOutputs<Value, Output, FewSums::kTokens, 1>;
  // The warp that brings X would leave those that multiply too few registers: so it is one of a warpgroup, whose other
  // warps are idle, that gives them some.
  static constexpr bool kMovesRegisters = kRows * kTokens == 256 * 128;
  static_assert(!kMovesRegisters || kParts == 1, "idle warps add up no sums of parts");
  static constexpr int kThreads = (kWarps + (kMovesRegisters ? 4 : 1)) * 32;
  static constexpr int kMultiplierRegisters = kWarps > 8 ? 112 : 208;
  static constexpr int kOtherRegisters = kWarps > 8 ? 32 : 88;
  using Totals = BlockSums<Sums, Output, true, 1, kParts, kThreads>;

  // Shared memory: stages of X, a box for each 64 columns; operands, later outputs, of each multiplying warp; barriers;
  // the first rows of the block's tiles. Where blocks share out the columns, partial sums and those of the other block
  // take the place of stages.
  static constexpr int kBoxColumns = 64;
  static constexpr int kBoxes = bsr_strips::kStripColumns / kBoxColumns;
  static constexpr int kLineBytes = kBoxColumns * 2;
  static constexpr int kBoxBytes = kTokens * kLineBytes;
  static constexpr int kStageBytes = kBoxes * kBoxBytes;
  static constexpr int kStagesEnd = kStages * kStageBytes;
  static constexpr int kSumsEnd = kParts > 1 ? Totals::kPartialBytes + Totals::kOtherBytes : 0;
  static constexpr int kWarpsAt = kStagesEnd > kSumsEnd ? kStagesEnd : kSumsEnd;
  static constexpr int kOutputBytes = kParts > 1 ? 0 : Outputs::kBytes;
  static constexpr int kWarpBytes = Steps::Cursor::kBytes > kOutputBytes ? Steps::Cursor::kBytes : kOutputBytes;
  static constexpr int kBarriersAt = kWarpsAt + kWarps * kWarpBytes;
  static constexpr int kRowPartsAt = kBarriersAt + 2 * kStages * 8;
  static constexpr int kRowParts = kRows / scatter::kPartRows;
  static constexpr int kSharedBytes = kRowPartsAt + (kParts > 1 ? kRowParts * 4 : 0);

  // Multiplies part `part` of the columns. x_map: of the same X as `input`, if that is aligned.
  static SPARSMITH_DEVICE void run(const Steps& steps, const TensorMap& x_map, const Input& input, const Output& output,
                                   int rows, int part, int n, u8* shared) {
    launch_dependents();
    constexpr int kPartQuarters = bsr_strips::kQuarters / kParts;
    const Work work{steps, x_map, input, rows, part * kPartQuarters, (part + 1) * kPartQuarters, n, shared};
    if (thread_index() < kStages) {
      arrival_barrier_init(work.full(thread_index()), 1);
      arrival_barrier_init(work.empty(thread_index()), kWarps);
    }
    block_barrier();
    const int warp = thread_index() / 32;
    if (warp < kWarps) {
      if constexpr (kMovesRegisters) take_registers<kMultiplierRegisters>();
      prefetch_steps(work, warp);
      wait_for_previous();  // Y may be read
      multiply(work, output, warp);
    } else {
      if constexpr (kMovesRegisters) give_registers<kOtherRegisters>();
      if (warp == kWarps) {
        if (input.aligned) {
          bring<true>(work, output);
        } else {
          bring<false>(work, output);
        }
      }
    }
  }

 private:
  using Stage = StageCursor<kStages>;
  static SPARSMITH_DEVICE int lane() { return lane_index(); }

  // The outputs of this block, one after the other, and its stages, which all roles count alike.
  struct Work {
    const Steps& steps;
    const TensorMap& x_map;
    const Input& input;
    int rows;
    int first_quarter;  // of the columns
    int end_quarter;
    int n;
    u8* shared;

    SPARSMITH_DEVICE int first_strip() const { return steps.first_strip(first_quarter); }
    SPARSMITH_DEVICE int end_strip() const { return steps.first_strip(end_quarter); }
    SPARSMITH_DEVICE int groups() const { return (steps.panels + kWarps - 1) / kWarps; }
    SPARSMITH_DEVICE int token_tiles() const { return (n + kTokens - 1) / kTokens; }
    SPARSMITH_DEVICE int outputs() const { return groups() * token_tiles(); }

    // Outputs go along the rows for each tile of tokens: blocks that read the same lines of X do so at about the same
    // time. Panels come with the most steps first; in every second round of the grid, backwards.
    SPARSMITH_DEVICE void place(int index, int& first_place, int& first_token) const {
      const int tile = index / groups();
      const int group = index - tile * groups();
      const bool backwards = (tile * groups() + groups() / 2) / grid_size_x() % 2 != 0;
      first_place = (backwards ? groups() - 1 - group : group) * kWarps;
      first_token = tile * kTokens;
    }

    SPARSMITH_DEVICE ArrivalBarrier* full(int stage) const {
      return reinterpret_cast<ArrivalBarrier*>(shared + kBarriersAt) + stage;
    }
    SPARSMITH_DEVICE ArrivalBarrier* empty(int stage) const { return full(stage) + kStages; }
    SPARSMITH_DEVICE u8* stage_at(int stage) const { return shared + stage * kStageBytes; }
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

  // ---- the warp that brings X ----

  // By boxes, or X that is not aligned for them. One lane starts copies, all lanes store elements.
  template <bool kByBoxes>
  static SPARSMITH_DEVICE void bring(const Work& work, const Output& output) {
    wait_for_previous();  // X may be read
    Stage stage;
    SPARSMITH_ROLLED for (int index = block_index_x(); index < work.outputs(); index += grid_size_x()) {
      int first_place = 0;
      int first_token = 0;
      work.place(index, first_place, first_token);
      if (!kByBoxes || lane() == 0) {
        SPARSMITH_ROLLED for (int strip = work.first_strip(); strip < work.end_strip(); ++strip) {
          await(work.empty(stage.number), stage.parity ^ 1U);
          bring_strip<kByBoxes>(work, first_token, strip, stage.number);
          stage.advance();
        }
      }
      warp_barrier();
      end_stages();
      add_parts(work, output, first_token);
    }
  }

  template <bool kByBoxes>
  static SPARSMITH_DEVICE void bring_strip(const Work& work, int first_token, int strip, int stage) {
    u8* to = work.stage_at(stage);
    const int first_column = strip * bsr_strips::kStripColumns;
    if constexpr (kByBoxes) {
      arrive_expecting(work.full(stage), kStageBytes);
      SPARSMITH_UNROLL for (int b = 0; b < kBoxes; ++b) {
        box_copy(to + b * kBoxBytes, work.x_map, first_column + b * kBoxColumns, first_token, work.full(stage),
                 1U << cluster_rank());
      }
    } else {
      SPARSMITH_ROLLED for (int b = 0; b < kBoxes; ++b) {
        const int column = first_column + b * kBoxColumns;
        work.input.template put_boxes<kTokens, kBoxColumns>(to + b * kBoxBytes, first_token, column);
      }
      warp_barrier();
      if (lane() == 0) arrive(work.full(stage));
      warp_barrier();  // it does not stand for what other lanes write from here on
    }
  }

  // ---- multiplying warps ----

  // Of a warp among the outputs.
  struct Place {
    int panel;  // by its place in the order
    int first_token;
    int warp;
  };

  // Of the first output, as far as L2.
  static SPARSMITH_DEVICE void prefetch_steps(const Work& work, int warp) {
    if (block_index_x() >= work.outputs() || lane() != 0) return;
    int first_place = 0;
    int first_token = 0;
    work.place(block_index_x(), first_place, first_token);
    const int place = first_place + warp;
    work.steps.prefetch(work.steps.begin(place, work.first_quarter), work.steps.begin(place, work.end_quarter));
  }

  static SPARSMITH_DEVICE void multiply(const Work& work, const Output& output, int warp) {
    Stage stage;
    SPARSMITH_ROLLED for (int index = block_index_x(); index < work.outputs(); index += grid_size_x()) {
      int first_place = 0;
      int first_token = 0;
      work.place(index, first_place, first_token);
      const Place place{first_place + warp, first_token, warp};
      if constexpr (kParts > 1) put_first_rows(work, first_place);
      Sums sums[kTiles];
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) sums[r].clear();
      multiply_strips(work, place, stage, sums);
      end_stages();
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
        if (sums[r].finite()) {
          finish<Outputs>(work, output, place, r, 0, sums[r]);
        } else {
          finish_nonzeros(work, output, place, r);
        }
      }
      add_parts(work, output, first_token);
    }
  }

  static SPARSMITH_DEVICE void multiply_strips(const Work& work, const Place& place, Stage& stage,
                                               Sums (&sums)[kTiles]) {
    const InputLines lines(work);
    int strip = work.first_strip();  // of the stage
    bool there = false;
    const auto leave_strip = [&]() {
      if (!there) await(work.full(stage.number), stage.parity);
      there = false;
      give_back(work, stage.number);
      stage.advance();
      ++strip;
    };
    typename Steps::Cursor steps(work.steps, work.steps.begin(place.panel, work.first_quarter),
                                 work.steps.begin(place.panel, work.end_quarter),
                                 work.shared + kWarpsAt + place.warp * kWarpBytes);
    SPARSMITH_ROLLED while (steps.left()) {
      const u32 word = steps.word();
      SPARSMITH_ROLLED while (strip < static_cast<int>(word >> bsr_strips::kStripShift)) leave_strip();
      if (!there) await(work.full(stage.number), stage.parity);
      there = true;
      typename Steps::Operand operands[kTiles];
      steps.load(operands);
      lines.multiply(stage.number, word, operands, sums);
      steps.advance();
    }
    SPARSMITH_ROLLED while (strip < work.end_strip()) leave_strip();
  }

  // The lines of X of a warp's tokens, which this lane names to load_matrices(): columns 0 to 7 and 8 to 15 of a step,
  // of eight tokens and the next eight.
  struct InputLines {
    u32 at;     // of this lane's line, in the first stage
    u32 line;   // in its eight
    u32 shift;  // of the chunk in a step's word

    explicit SPARSMITH_DEVICE InputLines(const Work& work)
        : line(known_here(static_cast<u32>(lane() % 8))),
          shift(known_here(static_cast<u32>(lane() / 8 % 2 * bsr_strips::kChunkBits))) {
      at = shared_offset(work.shared) + (lane() / 16 * 8 + lane() % 8) * kLineBytes;
    }
    SPARSMITH_DEVICE void multiply(int stage, u32 word, const typename Steps::Operand (&operands)[kTiles],
                                   Sums (&sums)[kTiles]) const {
      const u32 chunk = word >> shift;
      const u32 from = at + stage * kStageBytes + ((chunk ^ line) & 7U) * 16 + (chunk >> 3 & 1U) * kBoxBytes;
      SPARSMITH_UNROLL for (int i = 0; i < kTokens / 16; ++i) {
        u32 b[4];
        load_matrices(from + i * 16 * kLineBytes, b);
        SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
          sums[r].multiply(2 * i, operands[r].elements, b[0], b[1]);
          sums[r].multiply(2 * i + 1, operands[r].elements, b[2], b[3]);
        }
      }
    }
  };

  // The stage may be filled again.
  static SPARSMITH_DEVICE void give_back(const Work& work, int stage) {
    warp_barrier();  // all lanes have read it
    if (lane() == 0) arrive(work.empty(stage));
  }

  static SPARSMITH_DEVICE void put_first_rows(const Work& work, int first_place) {
    if (thread_index() >= kRowParts) return;
    const int place = first_place + thread_index() / kTiles;
    reinterpret_cast<u32*>(work.shared + kRowPartsAt)[thread_index()] = static_cast<u32>(
        place < work.steps.panels ? work.steps.first_row(place) + thread_index() % kTiles * bsr_strips::kTileRows
                                  : work.rows);
  }

  // Sums of a tile become outputs, or partial sums. `token`: the first one, from the block's.
  template <class Outputs_, class Sums_>
  static SPARSMITH_DEVICE void finish(const Work& work, const Output& output, const Place& place, int tile, int token,
                                      const Sums_& sums) {
    if constexpr (kParts > 1) {
      float* partials = reinterpret_cast<float*>(work.shared) + token * Sums_::kLine;
      sums.put_partials(partials, place.warp * kTiles + tile);
    } else if (place.panel < work.steps.panels) {
      const int first_row = work.steps.first_row(place.panel) + tile * bsr_strips::kTileRows;
      if (first_row >= work.rows) return;
      Outputs_{work.shared + kWarpsAt + place.warp * kWarpBytes,
               output,
               work.rows,
               work.n,
               static_cast<u32>(first_row),
               place.first_token + token}
          .store(sums.values);
    }
  }

  // Rare, so it uses loops: the products of what the weight holds, 32 tokens at a time.
  static SPARSMITH_DEVICE void finish_nonzeros(const Work& work, const Output& output, const Place& place, int tile) {
    const int end = work.steps.begin(place.panel, work.end_quarter);
    SPARSMITH_ROLLED for (int part = 0; part < kTokens / FewSums::kTokens; ++part) {
      const int token = part * FewSums::kTokens;
      FewSums sums;
      sums.clear();
      SPARSMITH_ROLLED for (int step = work.steps.begin(place.panel, work.first_quarter); step < end; ++step) {
        SPARSMITH_ROLLED for (int e = 0; e < bsr_strips::kStepColumns; ++e) {
          const Value w[2] = {work.steps.element(step, tile, lane() / 4, e),
                              work.steps.element(step, tile, lane() / 4 + 8, e)};
          sums.add_column(w, bsr_strips::kNothing, work.input, place.first_token + token, work.steps.column(step, e));
        }
      }
      finish<FewOutputs>(work, output, place, tile, token, sums);
    }
  }
};

}  // namespace sparsmith
