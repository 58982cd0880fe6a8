// Measures how fast all multiprocessors together read shared data: each block reads the same words, which L2 holds, as
// the blocks of every family read X. Without words, the kernel does nothing.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kThreads>
struct SharedReads {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 256, 512, 1024)

  using Word = Vector<u32, 4>;
  static constexpr int kTogether = 8;  // loads under way a thread
  static constexpr int kChunk = kThreads * kTogether;

  // words [count], a multiple of kChunk. Each block begins at its own place and goes round. found: becomes 1 if all
  // bits of a word are set, so that the compiler keeps every load.
  static SPARSMITH_DEVICE void run(const Word* words, i64 count, u32* found) {
    launch_dependents();
    wait_for_previous();
    const i64 chunks = count / kChunk;
    if (chunks == 0) return;
    i64 chunk = block_index_x() * chunks / grid_size_x();
    u32 bits = 0;
    SPARSMITH_ROLLED for (i64 i = 0; i < chunks; ++i) {
      Word loaded[kTogether];
      SPARSMITH_UNROLL for (int t = 0; t < kTogether; ++t) {
        loaded[t] = load_streaming(words + chunk * kChunk + t * kThreads + thread_index());
      }
      SPARSMITH_UNROLL for (int t = 0; t < kTogether; ++t) {
        const u32 all = loaded[t][0] & loaded[t][1] & loaded[t][2] & loaded[t][3];
        bits |= all == 0xFFFFFFFFU ? 1U : 0U;
      }
      chunk = chunk + 1 == chunks ? 0 : chunk + 1;
    }
    if (bits != 0) *found = 1;
  }
};

}  // namespace sparsmith
