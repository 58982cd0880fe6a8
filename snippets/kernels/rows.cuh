// Y = W X, one thread group per row: the chain of PaiSparse, from one thread to a whole block per row.
//
// A group of kShuffleLanes * kSharedParts * kTokenLanes threads works on kRows segments at once. Its reduction lanes
// share out a segment's nonzeros: they load kVectorWidth at a time, kUnroll times, before they form the products. Its
// token lanes share out the tokens of a tile. Then the sums pass down the chain: registers, shuffle, shared memory and,
// for a row that was cut into segments, partial sums.
//
// The grid's x runs over segments (and strides if it is smaller than needed), its y over token tiles.
#pragma once

#include "formats/csr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Stream, class Coding, class Input, class Sums, class Shuffle, class Shared, class Partials,
          class Output, int kTokenLanes, int kUnroll, bool kTargets, int kThreads>
struct RowsKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kUnroll, 1, 2, 4)
  SPARSMITH_TUNE(kTokenLanes, 1, 2, 4, 8, 16, 32)
  SPARSMITH_TUNE(kThreads, 64, 128, 256, 512, 1024)

  static constexpr int kVectorWidth = Stream::kVectorWidth;
  static constexpr int kRows = Sums::kRows;
  static constexpr int kTokens = Sums::kTokens;
  static constexpr int kReductionLanes = Shuffle::kLanes * Shared::kParts;
  static constexpr int kGroupThreads = kReductionLanes * kTokenLanes;
  static constexpr int kGroups = kThreads / kGroupThreads;
  static constexpr int kStep = kReductionLanes * kVectorWidth;
  static_assert(kGroupThreads <= kThreads, "a thread group lies in one block");
  static_assert(!Coding::kScales || !Partials::kEnabled, "a segment of a row that was cut does not know its row");

  static SPARSMITH_DEVICE void run(const csr::Segment* segments, const u32* targets, const Stream& stream,
                                   const Coding& coding, Input& input, const Output& output, float* partials,
                                   int segment_count, int n, u8* shared) {
    launch_dependents();
    const int lane = thread_index() % kGroupThreads;
    const int token_lane = lane % kTokenLanes;
    const int reduction_lane = lane / kTokenLanes;
    const int group = thread_index() / kGroupThreads;
    constexpr int kTile = kTokenLanes * kTokens;
    // Brings the first descriptors nearer in the meantime. Holding them would cost registers.
    const int first_segment = (block_index_x() * kGroups + group) * kRows;
    if (first_segment < segment_count) prefetch(segments + first_segment);
    wait_for_previous();
    for (int tile_first = block_index_y() * kTile; tile_first < n; tile_first += grid_size_y() * kTile) {
      input.begin_tile(tile_first, token_lane, n);
      // All threads make equally many iterations, so that they take part in barriers and shuffles.
      for (int base = block_index_x() * kGroups * kRows; base < segment_count;
           base += grid_size_x() * kGroups * kRows) {
        const int first = base + group * kRows;
        Sums sums;
        sums.clear();
        accumulate(segments, targets, stream, coding, input, sums, first, segment_count, reduction_lane);
        Shuffle::combine(sums);
        Shared::combine(sums, reinterpret_cast<float*>(shared));
        if (reduction_lane == 0) finish(targets, output, partials, sums, first, segment_count, input.first_token, n);
      }
    }
  }

 private:
  static SPARSMITH_DEVICE void accumulate(const csr::Segment* segments, const u32* targets, const Stream& stream,
                                          const Coding& coding, const Input& input, Sums& sums, int first,
                                          int segment_count, int reduction_lane) {
    u32 begin[kRows];
    u32 length[kRows];
    u32 row[kRows];  // for codings with scales
    u32 longest = 0;
    SPARSMITH_UNROLL for (int r = 0; r < kRows; ++r) {
      csr::Segment segment = {0, 0};
      if (first + r < segment_count) segment = load_cached(segments + first + r);
      row[r] = static_cast<u32>(first + r);
      if constexpr (Coding::kScales && kTargets)
        row[r] = first + r < segment_count ? load_cached(targets + first + r) : 0;
      begin[r] = segment.first;
      length[r] = segment.length;
      longest = segment.length > longest ? segment.length : longest;
    }
    for (u32 at = reduction_lane * kVectorWidth; at < longest; at += kStep * kUnroll) {
      typename Stream::Fragment fragments[kRows][kUnroll];
      SPARSMITH_UNROLL for (int r = 0; r < kRows; ++r) {
        SPARSMITH_UNROLL for (int u = 0; u < kUnroll; ++u) {
          if (at + u * kStep < length[r]) fragments[r][u] = stream.load(begin[r] + at + u * kStep);
        }
      }
      SPARSMITH_UNROLL for (int r = 0; r < kRows; ++r) {
        SPARSMITH_UNROLL for (int u = 0; u < kUnroll; ++u) {
          multiply(fragments[r][u], coding, input, sums, r, row[r], at + u * kStep, length[r]);
        }
      }
    }
  }

  // Adds the products of one vector: all of it if it lies inside the segment, otherwise up to the segment's end.
  static SPARSMITH_DEVICE void multiply(const typename Stream::Fragment& fragment, const Coding& coding,
                                        const Input& input, Sums& sums, int r, u32 row, u32 at, u32 length) {
    if (at + kVectorWidth <= length) {
      SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) product(fragment, coding, input, sums, r, row, e);
    } else {
      SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) {
        if (at + e < length) product(fragment, coding, input, sums, r, row, e);
      }
    }
  }

  static SPARSMITH_DEVICE void product(const typename Stream::Fragment& fragment, const Coding& coding,
                                       const Input& input, Sums& sums, int r, u32 row, int e) {
    const auto column = static_cast<u32>(fragment.columns[e]);
    float x[kTokens];
    input.load(column, x);
    sums.add(r, coding.decode(fragment.values[e], row, column), x);
  }

  static SPARSMITH_DEVICE void finish(const u32* targets, const Output& output, float* partials, const Sums& sums,
                                      int first, int segment_count, int first_token, int n) {
    SPARSMITH_UNROLL for (int r = 0; r < kRows; ++r) {
      const int segment = first + r;
      if (segment < segment_count) {
        u32 target = static_cast<u32>(segment);
        if constexpr (kTargets) target = load_cached(targets + segment);
        if (Partials::kEnabled && (target & csr::kPartialFlag) != 0) {
          Partials::put(partials, target & ~csr::kPartialFlag, first_token, n, sums.values[r]);
        } else {
          output.store(target, first_token, n, sums.values[r]);
        }
      }
    }
  }
};

}  // namespace sparsmith
