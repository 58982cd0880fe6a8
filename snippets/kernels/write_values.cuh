// Writes new values of a weight to their places in a packing, by runs of indices. Where values and little padding are
// all that an array holds, the indices are nonzeros: a gather of all elements, whose stores follow each other also in a
// packing of the transpose. Else they are places: a scatter, which leaves other elements alone.
//
// One thread owns kEach indices, so that kEach loads are in flight before the first store; neighbouring threads own
// neighbouring indices, and a block 256 kEach of them. Packings keep the nonzeros of a few rows together, so what a
// block loads and stores meets few sectors. If there are several arrays, each has its own launch, which leaves the
// places of the others alone.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Source: the type of the new values. Stored: the type of the packing. kNegativeZeros: a value of 0 is stored as -0,
// otherwise as +0; where no value lies is the other zero.
template <class Source, class Stored, bool kNegativeZeros, int kThreads>
struct WriteValuesKernel {
  SPARSMITH_ROLE(kernel)

  // values: [nonzeros]; runs, offsets: indices in runs of 2^run_bits (PlaceArrays); sources: whether they are nonzeros;
  // copies: [copy_count] pairs of a nonzero and a place; array: places [first, first + count).
  static SPARSMITH_DEVICE void run(const Source* values, const u32* runs, const u32* offsets, const u32* copies,
                                   Stored* array, i64 indices, int run_bits, int sources, i64 copy_count, i64 first,
                                   i64 count) {
    launch_dependents();
    wait_for_previous();
    const i64 stride = static_cast<i64>(grid_size_x()) * kThreads;
    const i64 block = static_cast<i64>(block_index_x()) * kThreads;
    for (i64 begin = block * kEach + thread_index(); begin < indices; begin += stride * kEach) {
      Source value[kEach] = {};
      i64 place[kEach];
      bool is_none[kEach] = {};
      SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) {
        const i64 i = begin + e * kThreads;
        place[e] = -1;
        if (i >= indices) continue;
        const u32 index = index_of(i, runs, offsets, run_bits, sources);
        is_none[e] = sources != 0 && index == kNoNonzero;
        place[e] = (sources != 0 ? i : static_cast<i64>(index)) - first;
        if (!is_none[e]) value[e] = load_coherent(values + (sources != 0 ? static_cast<i64>(index) : i));
      }
      SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) store(value[e], is_none[e], place[e], array, count);
    }
    for (i64 i = block + thread_index(); i < copy_count; i += stride)
      store(load_coherent(values + copies[2 * i]), false, static_cast<i64>(copies[2 * i + 1]) - first, array, count);
  }

 private:
  static constexpr int kEach = 4;
  static constexpr u32 kNoNonzero = 0x80000000U;  // as in PlaceArrays

  static SPARSMITH_DEVICE u32 index_of(i64 i, const u32* runs, const u32* offsets, int run_bits, int sources) {
    if (run_bits == 0) return load_streaming(runs + i);
    const u32* const run = runs + 2 * (i >> run_bits);
    const u32 offset = offsets[run[1] + static_cast<u32>(i & ((1 << run_bits) - 1))];
    return sources != 0 && offset == kNoNonzero ? kNoNonzero : run[0] + offset;
  }

  static SPARSMITH_DEVICE void store(Source value, bool is_none, i64 place, Stored* array, i64 count) {
    if (place < 0 || place >= count) return;
    if (is_none) {
      array[place] = from_float<Stored>(kNegativeZeros ? 0.0F : -0.0F);
      return;
    }
    const Stored stored = from_float<Stored>(to_float(value));
    array[place] = to_float(stored) == 0.0F ? from_float<Stored>(kNegativeZeros ? -0.0F : 0.0F) : stored;
  }
};

}  // namespace sparsmith
