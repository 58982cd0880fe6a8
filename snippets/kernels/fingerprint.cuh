// A number that tells whether memory has changed: the sum, modulo 2^64, of a mix of every word and its place. A change
// of one word always changes it. A change of several words does so unless 64 bits are equal by chance.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kThreads>
struct Fingerprint {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 256, 512, 1024)

  using Word = Vector<u32, 4>;

  // bytes [count]; its address is a multiple of 16. Each block writes the sum of its share to sums[block].
  static SPARSMITH_DEVICE void run(const u8* bytes, i64 count, u64* sums, u8* shared) {
    launch_dependents();
    wait_for_previous();
    const i64 thread = static_cast<i64>(block_index_x()) * kThreads + thread_index();
    const i64 threads = static_cast<i64>(grid_size_x()) * kThreads;
    u64 sum = 0;
    for (i64 i = thread; i < count / 16; i += threads) {
      const Word word = load_coherent(reinterpret_cast<const Word*>(bytes) + i);
      sum += mixed(word[0], word[1], 2 * i) + mixed(word[2], word[3], 2 * i + 1);
    }
    const i64 rest = count / 16 * 16 + thread;  // at most 15 bytes are no whole word
    if (rest < count) sum += mixed(bytes[rest], 0, rest + count);
    u64* of_threads = reinterpret_cast<u64*>(shared);
    of_threads[thread_index()] = sum;
    block_barrier();
    if (thread_index() != 0) return;
    u64 total = 0;
    for (int i = 0; i < kThreads; ++i) total += of_threads[i];
    sums[block_index_x()] = total;
  }

 private:
  // The finishing steps of SplitMix64, which map different numbers to different numbers (Steele, Lea and Flood, 2014).
  static SPARSMITH_DEVICE u64 mixed(u32 low, u32 high, i64 place) {
    u64 z = (static_cast<u64>(high) << 32 | low) + static_cast<u64>(place) * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
};

}  // namespace sparsmith
