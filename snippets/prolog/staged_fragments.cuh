// X of 16 tokens on its way to a warp's operands of wgmma: through shared memory that belongs to the warp, by
// asynchronous copies, so that what is under way takes no registers.
//
// Lane 4 g + t takes 8 neighbouring columns of tokens g and g + 8 at a time, as FragmentInput does and for the same
// permuted columns. A row of 64 columns is a line of 128 bytes, 16-byte chunk h of token i at h ^ (4 (i % 2)), so that
// the lanes' reads meet different banks.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kColumns: of X, that are copied at a time. kTaken: of them, that a lane takes at a time.
template <class Input, int kColumns_, int kTaken_>
struct StagedFragments {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kColumns_, 64, 128, 256)
  SPARSMITH_TUNE(kTaken_, 64, 128, 256)
  static_assert(kTaken_ <= kColumns_, "what is taken has been copied");

  static constexpr int kColumns = kColumns_;
  static constexpr int kTaken = kTaken_;
  static constexpr int kTokens = 16;
  static constexpr int kBytes = kTokens * kColumns * 2;  // of a warp
  using Fragment = typename Input::Fragment;
  // Of tokens [0, 8) and [8, 16), of 32 columns each.
  using Fragments = Fragment[2][kTaken / 32];

  const Input& input;
  int first_token;
  int column;  // the next one
  u8* staged;  // kBytes, aligned to 16

  SPARSMITH_DEVICE StagedFragments(const Input& input_, int first_token_, int column_, u8* staged_)
      : input(input_), first_token(first_token_), column(column_), staged(staged_) {}

  // Asks for the next columns. This lane has taken its part of those before.
  SPARSMITH_DEVICE void ask() {
    warp_barrier();
    if (input.aligned && column + kColumns <= input.cols) {
      const int chunk = lane() % 8;
      const auto* from = input.x + column + chunk * 8;
      const SharedAddress to = shared_address(place(lane() / 8, chunk));
      SPARSMITH_UNROLL for (int i = 0; i < kTokens; i += 4) {
        // Tokens behind the last one take its place; their sums go nowhere.
        const int own = first_token + i + lane() / 8;
        const int token = own < input.n ? own : input.n - 1;
        // Less than 2^32, as FragmentInput has it; so one multiplication is enough.
        const auto* line = from + static_cast<u32>(token) * static_cast<u32>(input.ldx);
        SPARSMITH_UNROLL for (int c = 0; c < kColumns / 64; ++c) {
          async_copy_streaming(advanced(to, (c * kTokens + i) * kLine), line + c * 64);
        }
      }
    } else {
      SPARSMITH_ROLLED for (int i = 0; i < kTokens / 8; ++i) {
        SPARSMITH_ROLLED for (int u = 0; u < kColumns / 32; ++u) {
          *at(i, u) = input.load(first_token + i * 8, column + u * 32);
        }
      }
    }
    async_commit();
    column += kColumns;
  }

  // Waits for what was asked for.
  SPARSMITH_DEVICE void wait() {
    async_wait<0>();
    warp_barrier();
  }
  // Takes this lane's part of kTaken columns, from the `first`th on.
  SPARSMITH_DEVICE void take(int first, Fragments& fragments) const {
    SPARSMITH_UNROLL for (int i = 0; i < kTokens / 8; ++i) {
      SPARSMITH_UNROLL for (int u = 0; u < kTaken / 32; ++u) fragments[i][u] = *at(i, first / 32 + u);
    }
  }

 private:
  static constexpr int kLine = 128;

  static SPARSMITH_DEVICE int lane() { return static_cast<int>(static_cast<u32>(thread_index()) % 32); }
  SPARSMITH_DEVICE u8* place(int slot, int chunk) const { return staged + slot * kLine + (chunk ^ slot % 2 * 4) * 16; }
  SPARSMITH_DEVICE Fragment* at(int i, int u) const {
    u8* line = place(i * 8 + lane() / 4, u % 2 * 4 + lane() % 4) + u / 2 * kTokens * kLine;
    return reinterpret_cast<Fragment*>(line);
  }
};

}  // namespace sparsmith
