// The packed arrays of a weight, loaded once by all threads of a grid and not used. Every thread has several loads of
// 16 bytes under way; neighbouring threads load neighbouring words.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"

namespace sparsmith {

template <int kThreads>
struct CopiedArrays {
  SPARSMITH_ROLE(prolog)

  static constexpr int kAhead = 4;  // loads of a thread under way
  using Word = Vector<u32, 4>;

  KeptWords kept;

  // array [bytes], from an address that is a multiple of 16.
  SPARSMITH_DEVICE void load(const u8* array, i64 bytes) {
    const i64 thread = static_cast<i64>(block_index_x()) * kThreads + thread_index();
    const i64 threads = static_cast<i64>(grid_size_x()) * kThreads;
    const Word* words = reinterpret_cast<const Word*>(array);
    const i64 count = bytes / static_cast<i64>(sizeof(Word));
    SPARSMITH_ROLLED for (i64 first = thread; first < count; first += kAhead * threads) {
      Word loaded[kAhead] = {};
      SPARSMITH_UNROLL for (int i = 0; i < kAhead; ++i) {
        if (first + i * threads < count) loaded[i] = load_streaming(words + first + i * threads);
      }
      SPARSMITH_UNROLL for (int i = 0; i < kAhead; ++i) {
        kept.keep(loaded[i][0] ^ loaded[i][1] ^ loaded[i][2] ^ loaded[i][3]);
      }
    }
    const i64 rest = count * static_cast<i64>(sizeof(Word)) + thread;  // at most 15 bytes are no whole word
    if (rest < bytes) kept.keep(load_cached_byte(array + rest));
  }

  // place: of a byte that the kernel may store to.
  SPARSMITH_DEVICE void end(u8* place) const { kept.end(place); }
};

}  // namespace sparsmith
