// Writes new values of a weight to their places in a packing: a scatter by a list of places, or of runs of places.
//
// One thread owns kEach nonzeros, so that kEach loads are in flight before the first store; neighbouring threads own
// neighbouring nonzeros. Packings keep the nonzeros of a row near each other, so the stores of a warp meet few sectors.
// If there are several arrays, each has its own launch, which leaves the places of the others alone.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Source: the type of the new values. Stored: the type of the packing. kNegativeZeros: a value of 0 is stored as -0,
// otherwise as +0.
template <class Source, class Stored, bool kNegativeZeros, int kThreads>
struct WriteValuesKernel {
  SPARSMITH_ROLE(kernel)

  // values: [nonzeros]; runs, offsets: the places of runs of 2^run_bits nonzeros (PlaceRuns); copies: [copy_count]
  // pairs of a nonzero and a place; array: places [first, first + count).
  static SPARSMITH_DEVICE void run(const Source* values, const u32* runs, const u32* offsets, const u32* copies,
                                   Stored* array, i64 nonzeros, int run_bits, i64 copy_count, i64 first, i64 count) {
    launch_dependents();
    wait_for_previous();
    const i64 stride = static_cast<i64>(grid_size_x()) * kThreads;
    const i64 thread = static_cast<i64>(block_index_x()) * kThreads + thread_index();
    for (i64 begin = thread; begin < nonzeros; begin += stride * kEach) {
      Source value[kEach] = {};
      i64 place[kEach];
      SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) {
        const i64 i = begin + e * stride;
        place[e] = -1;
        if (i >= nonzeros) continue;
        place[e] = static_cast<i64>(place_of(i, runs, offsets, run_bits)) - first;
        value[e] = load_coherent(values + i);
      }
      SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) store(value[e], place[e], array, count);
    }
    for (i64 i = thread; i < copy_count; i += stride)
      store(load_coherent(values + copies[2 * i]), static_cast<i64>(copies[2 * i + 1]) - first, array, count);
  }

 private:
  static constexpr int kEach = 4;

  static SPARSMITH_DEVICE u32 place_of(i64 i, const u32* runs, const u32* offsets, int run_bits) {
    if (run_bits == 0) return load_streaming(runs + i);
    const u32* const run = runs + 2 * (i >> run_bits);
    return run[0] + offsets[run[1] + static_cast<u32>(i & ((1 << run_bits) - 1))];
  }

  static SPARSMITH_DEVICE void store(Source value, i64 place, Stored* array, i64 count) {
    if (place < 0 || place >= count) return;
    const Stored stored = from_float<Stored>(to_float(value));
    array[place] = to_float(stored) == 0.0F ? from_float<Stored>(kNegativeZeros ? -0.0F : 0.0F) : stored;
  }
};

}  // namespace sparsmith
