// Outputs of a warp of a warpgroup: 16 neighbouring rows by some tokens, in the accumulators of wgmma
// (reduction/tile_sums.cuh). They leave through shared memory, as vectors of eight rows where Y is aligned: of each
// warp by itself, or of all four together, where the first two and the last two have neighbouring rows.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kWarps: that store together, 1 or 4.
template <class Value, class Output, int kTokens, int kWarps>
struct WarpOutputs {
  SPARSMITH_ROLE(epilog)

  static constexpr int kRows = 16;
  static constexpr int kSumTokens = 32;  // whose sums are stored together
  static constexpr int kSumLine = 20;    // floats of a token's rows, so that a warp's stores meet all banks
  static constexpr int kBytes = kSumTokens * kSumLine * 4;

  u8* own;  // kBytes; those of the warps of a warpgroup are neighbours
  const Output& output;
  int end_row;
  int n;
  u32 first_row;
  int first_token;
  u32 half_distance = 2 * kRows;  // kWarps = 4: from the rows of the first two warps to those of the others

  // Every lane of the kWarps warps calls it. `sums`: of a lane, as TileSums has them.
  SPARSMITH_DEVICE void store(const float (&sums)[kTokens / 2]) const {
    constexpr int kPairRows = (kWarps > 1 ? 2 : 1) * kRows;
    const u32 last_rows = first_half() > row_of_run(kLastHalf) ? first_half() : row_of_run(kLastHalf);
    const bool whole = output.template takes_vectors<kRunRows>() && first_token + kTokens <= n &&
                       last_rows + kPairRows <= static_cast<u32>(end_row);
    if constexpr (kFinishes) {
      if (whole) {
        store_finished(sums);
        return;
      }
    }
    SPARSMITH_UNROLL for (int part = 0; part < kTokens / kSumTokens; ++part) {
      store_sums(sums + part * kSumTokens / 2, first_token + part * kSumTokens, !kFinishes && whole);
    }
  }

 private:
  static constexpr int kRunRows = 8;  // that are stored as a vector
  // Outputs of two bytes that depend on the sums alone.
  static constexpr bool kFinishes = !Output::kReads && sizeof(typename Output::template Finished<1>) == 2;
  static constexpr int kTogether = kWarps * 32;  // threads
  static SPARSMITH_DEVICE int lane() { return lane_index(); }
  static SPARSMITH_DEVICE int warp() { return thread_index() / 32 % kWarps; }
  static constexpr int kHalfRuns = 2 * kRows / kRunRows;  // of two warps
  static constexpr int kLastHalf = kWarps > 1 ? kHalfRuns : 0;
  SPARSMITH_DEVICE u32 first_half() const { return first_row - warp() % 2 * kRows - warp() / 2 * half_distance; }
  // The rows of a vector, of all that are stored together.
  SPARSMITH_DEVICE u32 row_of_run(int run) const {
    return first_half() + run / kHalfRuns * half_distance + run % kHalfRuns * kRunRows;
  }
  static SPARSMITH_DEVICE void meet() {
    if constexpr (kWarps > 1) {
      warpgroup_barrier(thread_index() / kTogether);
    } else {
      warp_barrier();
    }
  }

  // Finished outputs of up to 64 tokens at a time: a line has a token's rows, its chunks of 16 bytes in an order such
  // that lines written together meet all banks.
  static constexpr int kLineBytes = kTogether;
  static SPARSMITH_DEVICE int chunk_at(int token, int chunk) {
    return chunk ^ (kWarps > 1 ? token % 8 : token / 4 % 2);
  }
  SPARSMITH_DEVICE void store_finished(const float* sums) const {
    constexpr int kPartTokens = kTokens < 64 ? kTokens : 64;
    static_assert(kPartTokens * 32 <= kBytes && kTokens % kPartTokens == 0, "parts of the tokens");
    u8* lines = own - warp() * kBytes;
    const int put_token = lane() / 16 * 8 + lane() % 8;
    const u32 to =
        shared_offset(lines + put_token * kLineBytes + chunk_at(put_token, warp() * 2 + lane() / 8 % 2) * 16);
    const int token = thread_index() % kTogether / (2 * kWarps);
    const int run = thread_index() % (2 * kWarps);
    const u8* from = lines + token * kLineBytes + chunk_at(token, run) * 16;
    SPARSMITH_UNROLL for (int part = 0; part < kTokens / kPartTokens; ++part) {
      const float* values = sums + part * kPartTokens / 2;
      Vector<Value, kPartTokens / 4> finished[2];
      SPARSMITH_UNROLL for (int r = 0; r < 2; ++r) {
        float of_row[kPartTokens / 4];
        SPARSMITH_UNROLL for (int i = 0; i < kPartTokens / 4; ++i) of_row[i] = values[i / 2 * 4 + r * 2 + i % 2];
        finished[r] = output.finished(first_row + lane() / 4 + r * 8, of_row);
      }
      SPARSMITH_UNROLL for (int s = 0; s < kPartTokens / 16; ++s) {
        u32 words[4];
        SPARSMITH_UNROLL for (int j = 0; j < 4; ++j) {
          const int at = s * 4 + j / 2 * 2;
          words[j] = finished[j % 2][at].bits | static_cast<u32>(finished[j % 2][at + 1].bits) << 16;
        }
        store_matrices_transposed(to + s * 16 * kLineBytes, words);
      }
      meet();
      SPARSMITH_UNROLL for (int s = 0; s < kPartTokens / 16; ++s) {
        const auto rows =
            *reinterpret_cast<const typename Output::template Finished<kRunRows>*>(from + s * 16 * kLineBytes);
        output.template store_rows<kRunRows, true>(row_of_run(run), end_row,
                                                   first_token + part * kPartTokens + s * 16 + token, rows);
      }
      meet();
    }
  }

  // Sums of 32 tokens: a lane takes eight rows of a token.
  SPARSMITH_DEVICE void store_sums(const float* sums, int first, bool whole) const {
    float* to = reinterpret_cast<float*>(own);
    SPARSMITH_UNROLL for (int i = 0; i < kSumTokens / 2; ++i) {
      const int token = i / 4 * 8 + lane() % 4 * 2 + i % 2;
      to[token * kSumLine + lane() / 4 + i / 2 % 2 * 8] = sums[i];
    }
    warp_barrier();
    if (whole) {
      store_runs<true>(first);
    } else {
      store_runs<false>(first);
    }
    warp_barrier();
  }

  template <bool kWhole>
  SPARSMITH_DEVICE void store_runs(int first) const {
    constexpr int kSteps = kSumTokens / 16;
    const u32 run_row = first_row + lane() % 2 * kRunRows;
    typename Output::template Finished<kRunRows> finished[kSteps];
    u32 rows[kSteps];
    SPARSMITH_UNROLL for (int s = 0; s < kSteps; ++s) {
      const int token = s * 16 + lane() / 2;
      const auto* run =
          reinterpret_cast<const Vector<float, 4>*>(own + token * kSumLine * 4 + lane() % 2 * kRunRows * 4);
      float values[kRunRows];
      SPARSMITH_UNROLL for (int v = 0; v < kRunRows / 4; ++v) {
        const Vector<float, 4> quad = run[v];
        SPARSMITH_UNROLL for (int k = 0; k < 4; ++k) values[v * 4 + k] = quad[k];
      }
      rows[s] = kWhole || first + token < n ? run_row : static_cast<u32>(end_row);
      output.template finish_rows<kRunRows, kWhole>(rows[s], end_row, first + token, values, finished[s]);
    }
    SPARSMITH_UNROLL for (int s = 0; s < kSteps; ++s) {
      output.template store_rows<kRunRows, kWhole>(rows[s], end_row, first + s * 16 + lane() / 2, finished[s]);
    }
  }
};

}  // namespace sparsmith
