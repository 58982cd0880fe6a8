// The epilog behind a dense product: reads W X in fp32, as a library left it, and makes Y from it.
//
// One thread owns one row and kTokens neighbouring tokens. If Y is token-major, neighbouring threads own neighbouring
// rows, so that each load and store is coalesced. If it is feature-major, they own neighbouring groups of tokens; each
// group is loaded as one vector if the address allows it.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Output, bool kTokenMajor, int kTokens, int kThreads>
struct DenseEpilogueKernel {
  SPARSMITH_ROLE(kernel)

  static_assert(kTokens * sizeof(float) <= 16, "one load is at most 16 bytes");

  // product: W X, in Y's layout without gaps.
  static SPARSMITH_DEVICE void run(const float* product, const Output& output, int rows, int n) {
    launch_dependents();
    wait_for_previous();
    const i64 groups = (static_cast<i64>(n) + kTokens - 1) / kTokens;
    const i64 count = rows * groups;
    const i64 stride = static_cast<i64>(grid_size_x()) * kThreads;
    for (i64 i = static_cast<i64>(block_index_x()) * kThreads + thread_index(); i < count; i += stride) {
      const i64 row = kTokenMajor ? i % rows : i / groups;
      const int first_token = static_cast<int>(kTokenMajor ? i / rows : i % groups) * kTokens;
      float sums[kTokens] = {};
      load(product, row, first_token, rows, n, sums);
      output.store(static_cast<u32>(row), first_token, n, sums);
    }
  }

 private:
  static SPARSMITH_DEVICE void load(const float* product, i64 row, int first_token, int rows, int n,
                                    float (&sums)[kTokens]) {
    if constexpr (kTokenMajor) {
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
        const i64 token = static_cast<i64>(first_token) + t;
        if (token < n) sums[t] = load_coherent(product + token * rows + row);
      }
    } else {
      const float* from = product + row * n + first_token;
      if (first_token + kTokens <= n && reinterpret_cast<u64>(from) % (kTokens * sizeof(float)) == 0) {
        const auto vector = load_coherent(reinterpret_cast<const Vector<float, kTokens>*>(from));
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) sums[t] = vector[t];
        return;
      }
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
        if (first_token + t < n) sums[t] = load_coherent(from + t);
      }
    }
  }
};

}  // namespace sparsmith
