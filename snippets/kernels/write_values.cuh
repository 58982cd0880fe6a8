// Writes new values of a weight to their places in a packing, by runs of indices. Where values and little padding are
// all that an array holds, the indices are nonzeros: a gather of all elements. Else they are places: a scatter, which
// leaves other elements alone.
//
// Of a gather a thread owns 8 neighbouring elements, which it stores at once. In a packing of the transpose they come
// from 8 rows: each load of a warp then meets neighbouring nonzeros, of lines that the loads of other elements meet
// again. In a scatter neighbouring lanes own neighbouring nonzeros. If there are several arrays, each has its own
// launch, which leaves the places of the others alone.
//
// Of masks, which a single array has, a warp owns 1,024 neighbouring elements: each lane puts the values of 32 into
// shared memory, between elements that are nothing, and the warp stores them in lines of 512 bytes.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Source: the type of the new values. Stored: the type of the packing. kNegativeZeros: a value of 0 is stored as -0,
// otherwise as +0; where no value lies is the other zero.
template <class Source, class Stored, bool kNegativeZeros, int kThreads>
struct WriteValuesKernel {
  SPARSMITH_ROLE(kernel)

  static constexpr int kRow = 32;                               // elements of a lane
  static constexpr int kRowBytes = kRow * sizeof(Stored) + 16;  // neighbouring rows begin in other banks
  static constexpr int kSharedBytes = kThreads * kRowBytes;

  // values: [nonzeros]; runs, offsets, run_bits, kind: of `indices` indices (PlaceArrays); copies: [copy_count] pairs
  // of a nonzero and a place; array: places [first, first + count).
  static SPARSMITH_DEVICE void run(const Source* values, const u32* runs, const u32* offsets, const u32* copies,
                                   Stored* array, i64 indices, int run_bits, int kind, i64 copy_count, i64 first,
                                   i64 count, u8* shared) {
    launch_dependents();
    wait_for_previous();
    const i64 stride = static_cast<i64>(grid_size_x()) * kThreads;
    const i64 block = static_cast<i64>(block_index_x()) * kThreads;
    if (kind == kPlaces) {
      for (i64 begin = block * kEach + thread_index(); begin < indices; begin += stride * kEach)
        scatter(values, runs, offsets, begin, indices, run_bits, array, first, count);
    } else if (kind == kMasks) {
      const i64 of_warp = block + warp_index() * kRow;
      u8* const tile = shared + warp_index() * (kRow * kRowBytes);
      for (i64 begin = of_warp * kRow; begin < indices; begin += stride * kRow)
        expand(values, runs, begin, indices, array, tile);
    } else {
      for (i64 begin = (block + thread_index()) * kEach; begin < indices; begin += stride * kEach)
        gather(values, runs, offsets, begin, indices, run_bits, array, first, count);
    }
    for (i64 i = block + thread_index(); i < copy_count; i += stride)
      store(load_coherent(values + copies[2 * i]), static_cast<i64>(copies[2 * i + 1]) - first, array, count);
  }

 private:
  // As in PlaceArrays.
  static constexpr int kEach = 8;
  static constexpr int kAtOnce = 4;  // values of a lane
  static constexpr u32 kNoNonzero = 0x80000000U;
  static constexpr int kPlaces = 0;
  static constexpr int kMasks = 2;

  using Group = Vector<u32, kEach>;
  static constexpr int kOfLine = 16 / sizeof(Stored);
  using Line = Vector<Stored, kOfLine>;

  static SPARSMITH_DEVICE void scatter(const Source* values, const u32* runs, const u32* offsets, i64 begin,
                                       i64 indices, int run_bits, Stored* array, i64 first, i64 count) {
    Source value[kEach] = {};
    i64 place[kEach];
    SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) {
      const i64 i = begin + e * kThreads;
      place[e] = -1;
      if (i >= indices) continue;
      u32 index = 0;
      if (run_bits == 0) {
        index = load_streaming(runs + i);
      } else {
        const u32* const run = runs + 2 * (i >> run_bits);
        index = run[0] + offsets[run[1] + static_cast<u32>(i & ((1 << run_bits) - 1))];
      }
      place[e] = static_cast<i64>(index) - first;
      value[e] = load_coherent(values + i);
    }
    SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) store(value[e], place[e], array, count);
  }

  static SPARSMITH_DEVICE void gather(const Source* values, const u32* runs, const u32* offsets, i64 begin, i64 indices,
                                      int run_bits, Stored* array, i64 first, i64 count) {
    bool there[kEach];
    const Group sources = sources_of(runs, offsets, begin, indices, run_bits, there);
    Source value[kEach] = {};
    SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) if (there[e]) value[e] = load_coherent(values + sources[e]);
    Line lines[kEach / kOfLine];
    SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) lines[e / kOfLine][e % kOfLine] =
        there[e] ? stored(value[e]) : nothing();
    const i64 place = begin - first;
    if (place >= 0 && place + kEach <= count && place % kEach == 0) {
      SPARSMITH_UNROLL for (int i = 0; i < kEach / kOfLine; ++i)
          store_whole(reinterpret_cast<Line*>(array + place) + i, lines[i]);
      return;
    }
    SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) if (place + e >= 0 && place + e < count) array[place + e] =
        lines[e / kOfLine][e % kOfLine];
  }

  // The nonzeros of kEach elements, where there are some.
  static SPARSMITH_DEVICE Group sources_of(const u32* runs, const u32* offsets, i64 begin, i64 indices, int run_bits,
                                           bool (&there)[kEach]) {
    Group sources;
    u32 base = 0;
    if (run_bits != 0) {
      const auto run = load_cached(reinterpret_cast<const Vector<u32, 2>*>(runs) + (begin >> run_bits));
      sources = load_cached(
          reinterpret_cast<const Group*>(offsets + run[1] + static_cast<u32>(begin & ((1 << run_bits) - 1))));
      base = run[0];
    } else if (begin + kEach <= indices) {
      sources = load_streaming(reinterpret_cast<const Group*>(runs + begin));
    } else {
      SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) sources[e] =
          begin + e < indices ? load_streaming(runs + begin + e) : kNoNonzero;
    }
    SPARSMITH_UNROLL for (int e = 0; e < kEach; ++e) {
      there[e] = sources[e] != kNoNonzero;
      sources[e] += base;
    }
    return sources;
  }

  // Writes the 1,024 elements from `begin`, those of the warp. tile: kRow rows of kRowBytes in shared memory.
  static SPARSMITH_DEVICE void expand(const Source* values, const u32* runs, i64 begin, i64 indices, Stored* array,
                                      u8* tile) {
    const i64 own = begin + lane_index() * kRow;
    u32 mask = 0;
    const Source* next = values;
    if (own < indices) {
      const u32* const run = runs + 3 * (own >> 6);
      const bool upper = (own & 32) != 0;
      mask = upper ? run[2] : run[1];
      next += run[0] + (upper ? count_bits(run[1]) : 0);
    }
    Line nothings;
    SPARSMITH_UNROLL for (int e = 0; e < kOfLine; ++e) nothings[e] = nothing();
    Stored* const row = reinterpret_cast<Stored*>(tile + lane_index() * kRowBytes);
    SPARSMITH_UNROLL for (int i = 0; i < kRow / kOfLine; ++i) reinterpret_cast<Line*>(row)[i] = nothings;
    while (mask != 0) {
      Source value[kAtOnce] = {};
      int bit[kAtOnce];
      SPARSMITH_UNROLL for (int e = 0; e < kAtOnce; ++e) {
        bit[e] = mask != 0 ? count_bits((mask & (0U - mask)) - 1) : -1;
        mask &= mask - 1;
        if (bit[e] >= 0) value[e] = load_coherent(next + e);
      }
      next += kAtOnce;
      SPARSMITH_UNROLL for (int e = 0; e < kAtOnce; ++e) if (bit[e] >= 0) row[bit[e]] = stored(value[e]);
    }
    warp_barrier();
    SPARSMITH_UNROLL for (int i = 0; i < kRow / kOfLine; ++i) {
      const int line = i * kRow + lane_index();
      const i64 place = begin + line * kOfLine;
      const u8* const from = tile + line / (kRow / kOfLine) * kRowBytes + line % (kRow / kOfLine) * sizeof(Line);
      const Line elements = *reinterpret_cast<const Line*>(from);
      if (place + kOfLine <= indices) {
        store_whole(reinterpret_cast<Line*>(array + place), elements);
      } else {
        SPARSMITH_UNROLL for (int e = 0; e < kOfLine; ++e) if (place + e < indices) array[place + e] = elements[e];
      }
    }
    warp_barrier();
  }

  static SPARSMITH_DEVICE Stored nothing() { return from_float<Stored>(kNegativeZeros ? 0.0F : -0.0F); }

  static SPARSMITH_DEVICE Stored stored(const Source& value) {
    const Stored result = rounded(value);
    return to_float(result) == 0.0F ? from_float<Stored>(kNegativeZeros ? -0.0F : 0.0F) : result;
  }
  static SPARSMITH_DEVICE Stored rounded(const Stored& value) { return value; }
  template <class T>
  static SPARSMITH_DEVICE Stored rounded(const T& value) {
    return from_float<Stored>(to_float(value));
  }

  static SPARSMITH_DEVICE void store(Source value, i64 place, Stored* array, i64 count) {
    if (place >= 0 && place < count) array[place] = stored(value);
  }
};

}  // namespace sparsmith
