// Brings the steps of a bsr_strips weight (formats/bsr_strips_layout.h) from global memory to the A operands of
// mma.m16n8k16, some steps ahead of the multiplications.
#pragma once

#include "formats/bsr_strips_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kTiles: of 16 rows, of a panel.
template <class Value_, int kTiles_>
struct StripSteps {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTiles_, 1, 2)
  static_assert(sizeof(Value_) == 2, "tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr int kTiles = kTiles_;
  using Operand = Vector<u32, 4>;
  static constexpr int kStepBytes = kTiles * bsr_strips::kTileElements * 2;

  const Value* values;
  const u32* words;
  const u32* part_steps;
  const u32* order;
  int panels;
  int strips;

  // Where the steps of a quarter of a place begin, quarter kQuarters being the next place's first. Places behind the
  // last one have none.
  SPARSMITH_DEVICE int begin(int place, int quarter) const {
    constexpr int kQuarters = bsr_strips::kQuarters;
    const int part = place < panels ? place * kQuarters + quarter : panels * kQuarters;
    return static_cast<int>(load_cached(part_steps + part));
  }
  SPARSMITH_DEVICE int first_strip(int quarter) const {
    const int first = (strips + bsr_strips::kQuarters - 1) / bsr_strips::kQuarters * quarter;
    return first < strips ? first : strips;
  }
  // The first row of a place's panel.
  SPARSMITH_DEVICE int first_row(int place) const {
    return static_cast<int>(load_cached(order + place)) * (bsr_strips::kTileRows * kTiles);
  }
  // One element of a step, and its column, for what tensor cores do not multiply.
  SPARSMITH_DEVICE Value element(int step, int tile, int row, int column) const {
    return load_cached(values + (static_cast<i64>(step) * kTiles + tile) * bsr_strips::kTileElements +
                       bsr_strips::element_index(row, column));
  }
  SPARSMITH_DEVICE int column(int step, int column) const {
    const u32 word = load_cached(words + step);
    const u32 chunk = word >> column / 8 * bsr_strips::kChunkBits & (bsr_strips::kStripChunks - 1);
    return static_cast<int>(word >> bsr_strips::kStripShift) * bsr_strips::kStripColumns +
           static_cast<int>(chunk) * bsr_strips::kChunkColumns + column % 8;
  }
  // Asks for steps [first, end) as far as L2, or for so many that those of all panels have room there. One lane calls
  // it.
  SPARSMITH_DEVICE void prefetch(int first, int end) const {
    constexpr int kMost = 65536 / kStepBytes;
    const int count = end - first < kMost ? end - first : kMost;
    if (count > 0) bulk_prefetch(operands_of(first), count * kStepBytes);
  }

  // Steps [first, end), one after the other. Operands come by asynchronous copies, each lane's to a place of its own:
  // they complete in order, so that the wait for one does not await those behind it.
  struct Cursor {
    static constexpr int kAhead = 4;                    // steps whose copies are under way
    static constexpr int kBytes = kAhead * kStepBytes;  // of shared memory, of a warp

    SPARSMITH_DEVICE Cursor(const StripSteps& steps, int first, int end, u8* shared)
        : left_(end - first),
          asked(end - first),
          lane(known_here(static_cast<u32>(lane_index()))),
          at(shared_address(shared + lane_index() * 16)),
          next_operands(steps.operands_of(first) + lane_index()),
          next_words(steps.words + first + lane_index()) {
      words = load_words(0);
      more_words = load_words(32);
      SPARSMITH_UNROLL for (int s = 0; s < kAhead; ++s) ask(s);
      turn_to_word();
    }
    SPARSMITH_DEVICE bool left() const { return left_ > 0; }
    // Of this step.
    SPARSMITH_DEVICE u32 word() const { return word_; }
    SPARSMITH_DEVICE void load(Operand (&operands)[kTiles]) const {
      async_wait<kAhead - 1>();
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
        operands[r] = load_shared<Operand>(advanced(at, place + r * 512));
      }
    }
    // The step has been loaded. Its place is taken by a copy.
    SPARSMITH_DEVICE void advance() {
      ask(0);
      place = (place + kStepBytes) % kBytes;
      --left_;
      if ((++number & 31) == 0) {
        words = more_words;
        more_words = load_words(32);
      }
      turn_to_word();
    }

   private:
    SPARSMITH_DEVICE void turn_to_word() { word_ = shuffle_index(words, number & 31); }
    // From `ahead` words behind this step on, one a lane.
    SPARSMITH_DEVICE u32 load_words(int ahead) {
      return ahead + static_cast<int>(lane) < left_ ? load_cached(next_words + number + ahead) : 0;
    }
    SPARSMITH_DEVICE void ask(int s) {
      if (asked > 0) {
        SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
          async_copy_streaming(advanced(at, (place + s * kStepBytes) % kBytes + r * 512), next_operands + r * 32);
        }
      }
      async_commit();
      next_operands += kTiles * 32;
      --asked;
    }

    int left_;  // steps
    int asked;  // steps that have not been asked for
    u32 lane;
    SharedAddress at;
    u32 place = 0;                 // of this step, from there
    int number = 0;                // of this step
    const Operand* next_operands;  // this lane's, of the next step to ask for
    const u32* next_words;
    u32 words;  // of this step and its neighbours, one a lane
    u32 more_words;
    u32 word_;
  };

 private:
  SPARSMITH_DEVICE const Operand* operands_of(int step) const {
    return reinterpret_cast<const Operand*>(values) + static_cast<i64>(step) * (kTiles * 32);
  }
};

}  // namespace sparsmith
