// Brings X of 16 tokens to a warp's operands of wgmma, through shared memory that belongs to the warp, by asynchronous
// copies, so that data in flight takes no registers.
//
// Lane 4 g + t takes 8 neighbouring columns of tokens g and g + 8 at a time, as FragmentInput does and with the same
// permutation of columns. A row of 64 columns is a line of 128 bytes, with 16-byte chunk h of token i at h ^ (4 (i %
// 2)), so that the lanes' reads meet different banks.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kColumns: columns of X that are copied at a time, in a step. kTaken: columns of them that a lane takes at a time.
// kStages: steps for whose columns there is room.
template <class Input, int kColumns_, int kTaken_, int kStages>
struct StagedFragments {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kColumns_, 64, 128, 256)
  SPARSMITH_TUNE(kTaken_, 64, 128, 256)
  SPARSMITH_TUNE(kStages, 1, 2)
  static_assert(kTaken_ <= kColumns_, "what is taken has been copied");

  static constexpr int kColumns = kColumns_;
  static constexpr int kTaken = kTaken_;
  static constexpr int kTokens = 16;
  static constexpr int kStageBytes = kTokens * kColumns * 2;
  static constexpr int kBytes = kStages * kStageBytes;  // of a warp
  using Fragment = typename Input::Fragment;
  // The fragments of tokens [0, 8) and [8, 16), of 32 columns each.
  using Fragments = Fragment[2][kTaken / 32];

  const Input& input;
  int first_token;
  int column;  // the next one
  u8* staged;  // kBytes, aligned to 16

  SPARSMITH_DEVICE StagedFragments(const Input& input_, int first_token_, int column_, u8* staged_)
      : input(input_), first_token(first_token_), column(column_), staged(staged_) {
    if constexpr (kLinesHeld) {
      SPARSMITH_UNROLL for (int i = 0; i < kLines; ++i) lines[i] = line(i);
    }
  }

  // Whether the next columns come by asynchronous copies, not element by element.
  SPARSMITH_DEVICE bool copies() const { return input.aligned && column + kColumns <= input.cols; }

  // Requests the next columns, those of `step`. REQUIRES: this lane has taken its part of kStages steps before.
  SPARSMITH_DEVICE void ask(int step) {
    if (copies()) {
      copy(step);
    } else {
      load_elements(step);
    }
    asked();
  }
  // The same in parts: one of the first two, or neither once there are no columns, and then asked(), for wait() counts.
  SPARSMITH_DEVICE void copy(int step) const {
    warp_barrier();
    const SharedAddress to = shared_address(place(step, lane() / 8, lane() % 8));
    SPARSMITH_UNROLL for (int i = 0; i < kLines; ++i) {
      const auto* from = kLinesHeld ? lines[kLinesHeld ? i : 0] : line(i);
      SPARSMITH_UNROLL for (int c = 0; c < kColumns / 64; ++c) {
        async_copy_streaming(advanced(to, (c * kTokens + i * 4) * kLine), from + c * 64);
      }
    }
  }
  SPARSMITH_DEVICE void load_elements(int step) const {
    warp_barrier();
    SPARSMITH_ROLLED for (int i = 0; i < kTokens / 8; ++i) {
      SPARSMITH_ROLLED for (int u = 0; u < kColumns / 32; ++u) {
        *at(step, i, u) = input.load(first_token + i * 8, column + u * 32);
      }
    }
  }
  SPARSMITH_DEVICE void asked() {
    async_commit();
    column += kColumns;
    if constexpr (kLinesHeld) {
      SPARSMITH_UNROLL for (int i = 0; i < kLines; ++i) lines[i] += kColumns;
    }
  }

  // Waits for the requested columns, except those of the last kStages - 1 steps.
  SPARSMITH_DEVICE void wait() {
    async_wait<kStages - 1>();
    warp_barrier();
  }
  // Takes this lane's part of kTaken columns, from the `first`th of the step on.
  SPARSMITH_DEVICE void take(int step, int first, Fragments& fragments) const {
    SPARSMITH_UNROLL for (int i = 0; i < kTokens / 8; ++i) {
      SPARSMITH_UNROLL for (int u = 0; u < kTaken / 32; ++u) fragments[i][u] = *at(step, i, first / 32 + u);
    }
  }

 private:
  using Value = typename Input::Value;
  static constexpr int kLine = 128;
  static constexpr int kLines = kTokens / 4;       // that a lane copies 16 bytes each of
  static constexpr bool kLinesHeld = kStages > 1;  // in registers, of which there are enough then
  const Value* lines[kLinesHeld ? kLines : 1];     // this lane's next columns, where they are held

  // This lane's next columns of the i-th of its lines.
  SPARSMITH_DEVICE const Value* line(int i) const {
    const Value* from = input.x + column + lane() % 8 * 8;
    // The last token takes the place of tokens behind it; their sums go nowhere.
    const int own = first_token + i * 4 + lane() / 8;
    const int token = own < input.n ? own : input.n - 1;
    // Less than 2^32, as in FragmentInput; so one multiplication is enough.
    return from + static_cast<u32>(token) * static_cast<u32>(input.ldx);
  }

  static SPARSMITH_DEVICE int lane() { return static_cast<int>(static_cast<u32>(thread_index()) % 32); }
  SPARSMITH_DEVICE u8* stage(int step) const {
    return staged + static_cast<int>(static_cast<u32>(step) % kStages * kStageBytes);
  }
  SPARSMITH_DEVICE u8* place(int step, int slot, int chunk) const {
    return stage(step) + slot * kLine + (chunk ^ slot % 2 * 4) * 16;
  }
  SPARSMITH_DEVICE Fragment* at(int step, int i, int u) const {
    u8* line = place(step, i * 8 + lane() / 4, u % 2 * 4 + lane() % 4) + u / 2 * kTokens * kLine;
    return reinterpret_cast<Fragment*>(line);
  }
};

}  // namespace sparsmith
