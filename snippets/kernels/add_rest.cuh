// The last kernel of a hybrid: adds the products of a weight's rest to the sums of its structured part, and runs the
// epilog.
//
// A block of threads owns 32 rows by 64 tokens at a time. A thread adds up the products of one row's nonzeros with 8
// neighbouring tokens, which it loads as 16 bytes of feature-major X; the lanes of a row read whole lines. The sums
// pass through shared memory, so that a thread then has 8 neighbouring rows of a token, as Y and the sums of the
// structured part lie. Products are added in the order of columns: two runs give equal bits.
#pragma once

#include "formats/csr_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Stream: of the rest's nonzeros. Output: of token-major Y.
template <class Stream, class Output>
struct AddRestKernel {
  SPARSMITH_ROLE(kernel)
  using Value = typename Stream::Stored;  // of X too
  static_assert(sizeof(Value) == 2, "8 tokens are 16 bytes of X");

  static constexpr int kThreads = 256;
  static constexpr int kTokens = 64;  // of a tile
  static constexpr int kRun = 8;      // tokens, then rows, of a thread
  static constexpr int kTokenLanes = kTokens / kRun;
  static constexpr int kRows = kThreads / kTokenLanes;  // of a tile
  static constexpr int kSumLine = kRows + 1;  // floats of a token's rows, so that a warp's loads meet all banks
  static constexpr int kSharedBytes = kTokens * kSumLine * 4;
  static_assert(kRows / kRun * kTokens == kThreads, "a thread has one run of rows");

  // segments: a row each. xt: feature-major X; lines of ldt elements, a multiple of 8, with zeros behind the tokens.
  // sums: of the structured part, in fp32, [n][rows].
  static SPARSMITH_DEVICE void run(const csr::Segment* segments, const Stream& rest, const Value* xt, i64 ldt,
                                   const float* sums, const Output& output, int rows, int n, u8* shared) {
    launch_dependents();
    wait_for_previous();
    float* const of_rest = reinterpret_cast<float*>(shared);  // [kTokens][kSumLine]
    const int row_tiles = (rows + kRows - 1) / kRows;
    const i64 tiles = static_cast<i64>(row_tiles) * ((n + kTokens - 1) / kTokens);
    // All rows for some tokens, then the next ones: lines of X that several rows need are still in L2.
    for (i64 tile = block_index_x(); tile < tiles; tile += grid_size_x()) {
      const int first_row = static_cast<int>(tile % row_tiles) * kRows;
      const int first_token = static_cast<int>(tile / row_tiles) * kTokens;
      multiply(segments, rest, xt, ldt, rows, first_row, first_token, of_rest);
      block_barrier();
      finish(sums, output, rows, n, first_row, first_token, of_rest);
      block_barrier();
    }
  }

 private:
  using Line = Vector<Value, kRun>;

  static SPARSMITH_DEVICE void multiply(const csr::Segment* segments, const Stream& rest, const Value* xt, i64 ldt,
                                        int rows, int first_row, int first_token, float* of_rest) {
    constexpr int kEntries = Stream::kVectorWidth;
    const int row = thread_index() / kTokenLanes;
    const int token = thread_index() % kTokenLanes * kRun;
    csr::Segment segment = {0, 0};
    if (first_row + row < rows && first_token + token < ldt) segment = load_cached(segments + first_row + row);
    float values[kRun] = {};
    for (u32 at = 0; at < segment.length; at += kEntries) {
      const auto entries = rest.load(segment.first + at);
      Line lines[kEntries];  // zeros where no entry is
      SPARSMITH_UNROLL for (int e = 0; e < kEntries; ++e) {
        const Value* from = xt + static_cast<i64>(entries.columns[e]) * ldt + first_token + token;
        lines[e] = load_coherent_if(at + e < segment.length, reinterpret_cast<const Line*>(from));
      }
      SPARSMITH_UNROLL for (int e = 0; e < kEntries; ++e) {
        SPARSMITH_UNROLL for (int t = 0; t < kRun; ++t) {
          values[t] = multiply_add(to_float(entries.values[e]), to_float(lines[e][t]), values[t]);
        }
      }
    }
    SPARSMITH_UNROLL for (int t = 0; t < kRun; ++t) of_rest[(token + t) * kSumLine + row] = values[t];
  }

  static SPARSMITH_DEVICE void finish(const float* sums, const Output& output, int rows, int n, int first_row,
                                      int first_token, const float* of_rest) {
    constexpr int kRuns = kRows / kRun;
    const int in_tile = thread_index() % kRuns * kRun;
    const int row = first_row + in_tile;
    const int token = first_token + thread_index() / kRuns;
    if (row >= rows || token >= n) return;
    float values[kRun] = {};
    const float* from = sums + static_cast<i64>(token) * rows + row;
    if (rows % 4 == 0 && row + kRun <= rows) {
      SPARSMITH_UNROLL for (int i = 0; i < kRun; i += 4) {
        const auto quad = load_coherent(reinterpret_cast<const Vector<float, 4>*>(from + i));
        SPARSMITH_UNROLL for (int k = 0; k < 4; ++k) values[i + k] = quad[k];
      }
    } else {
      SPARSMITH_UNROLL for (int i = 0; i < kRun; ++i) {
        if (row + i < rows) values[i] = load_coherent(from + i);
      }
    }
    SPARSMITH_UNROLL for (int i = 0; i < kRun; ++i) {
      values[i] += of_rest[(token - first_token) * kSumLine + in_tile + i];
    }
    typename Output::template Finished<kRun> finished;
    output.template finish_rows<kRun>(static_cast<u32>(row), rows, token, values, finished);
    output.template store_rows<kRun>(static_cast<u32>(row), rows, token, finished);
  }
};

}  // namespace sparsmith
