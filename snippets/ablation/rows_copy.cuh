// The nonzeros of a csr weight, to the registers of the threads of RowsKernel, as many together, and nothing else.
#pragma once

#include "snippets/ablation/kept_words.cuh"
#include "snippets/contract.cuh"
#include "snippets/kernels/rows.cuh"

namespace sparsmith {

template <class Stream, class Coding, class Input, class Sums, class Shuffle, class Shared, class Partials,
          class Output, int kTokenLanes, int kUnroll, bool kTargets, int kThreads>
struct RowsCopyKernel {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kUnroll, 1, 2, 4)

  using Whole = RowsKernel<Stream, Coding, Input, Sums, Shuffle, Shared, Partials, Output, kTokenLanes, kUnroll,
                           kTargets, kThreads>;
  using Fragment = typename Stream::Fragment;
  static constexpr int kVectorWidth = Stream::kVectorWidth;
  static constexpr int kRows = Sums::kRows;

  static SPARSMITH_DEVICE void run(const csr::Segment* segments, const u32* /*targets*/, const Stream& stream,
                                   const Coding& /*coding*/, const Input& /*input*/, const Output& output,
                                   float* /*partials*/, int segment_count, int n, u8* /*shared*/) {
    launch_dependents();
    const int group = thread_index() / Whole::kGroupThreads;
    const int first_segment = (block_index_x() * Whole::kGroups + group) * kRows;
    if (first_segment < segment_count) prefetch(segments + first_segment);
    wait_for_previous();
    constexpr int kTile = kTokenLanes * Sums::kTokens;
    KeptWords kept;
    for (int tile_first = block_index_y() * kTile; tile_first < n; tile_first += grid_size_y() * kTile) {
      for (int base = block_index_x() * Whole::kGroups * kRows; base < segment_count;
           base += grid_size_x() * Whole::kGroups * kRows) {
        copy(segments, stream, base + group * kRows, segment_count, kept);
      }
    }
    kept.end(output.y);
  }

 private:
  static SPARSMITH_DEVICE void copy(const csr::Segment* segments, const Stream& stream, int first, int segment_count,
                                    KeptWords& kept) {
    const int reduction_lane = thread_index() % Whole::kGroupThreads / kTokenLanes;
    csr::Segment of[kRows];
    u32 longest = 0;
    SPARSMITH_UNROLL for (int r = 0; r < kRows; ++r) {
      of[r] = {0, 0};
      if (first + r < segment_count) of[r] = load_cached(segments + first + r);
      longest = of[r].length > longest ? of[r].length : longest;
    }
    for (u32 at = reduction_lane * kVectorWidth; at < longest; at += Whole::kStep * kUnroll) {
      Fragment fragments[kRows][kUnroll];
      SPARSMITH_UNROLL for (int r = 0; r < kRows; ++r) {
        SPARSMITH_UNROLL for (int u = 0; u < kUnroll; ++u) {
          const u32 place = at + u * Whole::kStep;
          if (place < of[r].length) fragments[r][u] = stream.load(of[r].first + place);
        }
      }
      SPARSMITH_UNROLL for (int r = 0; r < kRows; ++r) {
        SPARSMITH_UNROLL for (int u = 0; u < kUnroll; ++u) {
          if (at + u * Whole::kStep < of[r].length) keep(fragments[r][u], kept);
        }
      }
    }
  }

  static SPARSMITH_DEVICE void keep(const Fragment& fragment, KeptWords& kept) {
    SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) {
      kept.keep(static_cast<u32>(fragment.columns[e]));
      if constexpr (sizeof(typename Stream::Stored) == 4) {
        kept.keep(bits_of_float(fragment.values[e]));
      } else {
        kept.keep(fragment.values[e].bits);
      }
    }
  }
};

}  // namespace sparsmith
