// Stores values of a weight, of which the sums of a warp hold more: those of 16 rows by 32 columns at a time. They come
// through shared memory, so that neighbouring lanes store neighbouring values; where all rows are full, as vectors of
// 16 bytes.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Output>
struct HeldValues {
  SPARSMITH_ROLE(epilog)

  static constexpr int kRows = 16;
  static constexpr int kColumns = 32;
  static constexpr int kLine = kColumns + 4;  // floats of a row, so that a warp's stores meet all banks
  static constexpr int kBytes = kRows * kLine * 4;

  float* lines;  // of this warp: kBytes
  const Output& output;

  // sums: from the `first`th on, fragments of tensor cores, of 8 neighbouring columns each. mask: bit c of lane
  // 16 half + r: whether the weight holds column c of row r. place: of the first value there.
  template <int kSums>
  SPARSMITH_DEVICE void store(const float (&sums)[kSums], int first, u32 mask, u32 place, int half) const {
    SPARSMITH_UNROLL for (int i = 0; i < kColumns / 2; i += 2) {
      float* to = lines + (lane_index() / 4 + i / 2 % 2 * 8) * kLine + i / 4 * 8 + lane_index() % 4 * 2;
      *reinterpret_cast<Vector<float, 2>*>(to) = {sums[first + i], sums[first + i + 1]};
    }
    warp_barrier();
    if (warp_any(lane_index() / kRows == half && mask != ~0U)) {
      store_held(mask, place, half);
    } else {
      store_runs(place, half);
    }
    warp_barrier();
  }

 private:
  SPARSMITH_DEVICE void store_held(u32 mask, u32 place, int half) const {
    SPARSMITH_ROLLED for (int row = 0; row < kRows; ++row) {
      const u32 held = shuffle_index(mask, half * kRows + row);
      const u32 first = shuffle_index(place, half * kRows + row);
      if ((held >> lane_index() & 1U) == 0) continue;
      const float sum[1] = {lines[row * kLine + lane_index()]};
      output.store(first + count_bits(held & ((1U << lane_index()) - 1U)), 0, 1, sum);
    }
  }

  // Rows of 32 neighbouring values: a lane takes as many as are 16 bytes.
  SPARSMITH_DEVICE void store_runs(u32 place, int half) const {
    constexpr int kRun = 16 / static_cast<int>(sizeof(typename Output::template Finished<1>));
    constexpr int kRunLanes = kColumns / kRun;
    SPARSMITH_ROLLED for (int row = lane_index() / kRunLanes; row < kRows; row += 32 / kRunLanes) {
      const int column = lane_index() % kRunLanes * kRun;
      const u32 first = shuffle_index(place, half * kRows + row) + column;
      float values[kRun];
      SPARSMITH_UNROLL for (int v = 0; v < kRun; v += 4) {
        const auto quad = *reinterpret_cast<const Vector<float, 4>*>(lines + row * kLine + column + v);
        SPARSMITH_UNROLL for (int k = 0; k < 4; ++k) values[v + k] = quad[k];
      }
      typename Output::template Finished<kRun> finished;
      output.template finish_rows<kRun>(first, static_cast<int>(first) + kRun, 0, values, finished);
      output.template store_rows<kRun>(first, static_cast<int>(first) + kRun, 0, finished);
    }
  }
};

}  // namespace sparsmith
