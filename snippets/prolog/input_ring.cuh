// Brings X to tensor cores that read it in shared memory, through a ring of stages that some warps fill and others
// read.
//
// A stage holds kStageTiles tiles of 64 neighbouring columns by kTokens tokens. In a tile, every token has a line of
// 128 bytes, whose 16-byte chunk h lies at h ^ (token % 8): the 128-byte swizzle. Loading warps take stages by turns.
// Each warp requests all of a stage by asynchronous copies, awaits them, declares that tensor cores will read them, and
// hands the stage over. This declaration is a fence that waits for all copies of the warp, so a warp has a single stage
// in flight.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Input, int kTokens, int kStageTiles_, int kStages_>
struct InputRing {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTokens, 8, 16, 32, 64, 128)
  SPARSMITH_TUNE(kStageTiles_, 1, 2, 4)
  SPARSMITH_TUNE(kStages_, 4, 8)

  static constexpr int kStageTiles = kStageTiles_;
  static constexpr int kStages = kStages_;
  static constexpr int kTileColumns = 64;
  static constexpr int kTileBytes = kTokens * kTileColumns * 2;
  static constexpr int kStageBytes = kStageTiles * kTileBytes;
  static constexpr int kBytes = kStages * kStageBytes;
  static constexpr int kLine = 128;

  // Brings columns [column, column + 64 kStageTiles) of tokens [first_token, first_token + kTokens) to `stage`. They
  // are 0 outside X. Tokens behind the last one may have its values, because their sums go nowhere.
  static SPARSMITH_DEVICE void bring(const Input& input, int first_token, int column, u8* stage) {
    if (input.aligned && column + kStageTiles * kTileColumns <= input.cols) {
      copy(input, first_token, column, stage);
    } else {
      load_elements(input, first_token, column, stage);
    }
    async_commit();
    async_wait<0>();
  }

 private:
  static SPARSMITH_DEVICE int lane() { return static_cast<int>(static_cast<u32>(thread_index()) % 32); }

  // A lane copies a chunk of every fourth token.
  static SPARSMITH_DEVICE void copy(const Input& input, int first_token, int column, u8* stage) {
    const u8* from = reinterpret_cast<const u8*>(input.x + column + lane() % 8 * 8);
    // Bytes from a token to the next: less than 2^32, as in FragmentInput.
    const u32 pitch = static_cast<u32>(input.ldx) * 2;
    const u32 last = static_cast<u32>(input.n - 1);
    const u32 first = static_cast<u32>(first_token + lane() / 8);
    const SharedAddress even = shared_address(stage + lane() / 8 * kLine + (lane() % 8 ^ lane() / 8) * 16);
    const SharedAddress odd = shared_address(stage + lane() / 8 * kLine + (lane() % 8 ^ lane() / 8 ^ 4) * 16);
    SPARSMITH_UNROLL for (int i = 0; i < kTokens / 4; ++i) {
      const u32 own = first + i * 4;
      const u8* line = from + (own < last ? own : last) * pitch;
      SPARSMITH_UNROLL for (int c = 0; c < kStageTiles; ++c) {
        async_copy_streaming(advanced(i % 2 == 0 ? even : odd, i * 4 * kLine + c * kTileBytes),
                             line + c * kTileColumns * 2);
      }
    }
  }

  // Eight tokens by 32 columns at a time: a lane's fragment is a chunk.
  static SPARSMITH_DEVICE void load_elements(const Input& input, int first_token, int column, u8* stage) {
    const int slot = lane() / 4;
    SPARSMITH_ROLLED for (int i = 0; i < kTokens / 8; ++i) {
      SPARSMITH_ROLLED for (int u = 0; u < kStageTiles * 2; ++u) {
        u8* to = stage + u / 2 * kTileBytes + (i * 8 + slot) * kLine + ((u % 2 * 4 + lane() % 4) ^ slot) * 16;
        *reinterpret_cast<typename Input::Fragment*>(to) = input.load(first_token + i * 8, column + u * 32);
      }
    }
  }
};

}  // namespace sparsmith
