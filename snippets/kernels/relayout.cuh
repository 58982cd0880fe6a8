// Token-major X[N][K] to feature-major Xt[K][ldt] in the workspace, so that the tokens of a column lie side by side.
//
// A block moves 32 x 32 tiles through shared memory: both sides are read and written along their rows. ldt is n
// rounded up to a multiple of 8; the tokens between n and ldt become 0.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value>
struct RelayoutKernel {
  SPARSMITH_ROLE(kernel)

  static constexpr int kTile = 32;
  static constexpr int kThreads = 256;
  static constexpr int kRowThreads = kThreads / kTile;
  static constexpr int kSharedBytes = kTile * (kTile + 1) * static_cast<int>(sizeof(float));

  static SPARSMITH_DEVICE void run(const Value* x, i64 ldx, Value* xt, i64 ldt, int cols, int n, u8* shared) {
    launch_dependents();
    wait_for_previous();
    float* tile = reinterpret_cast<float*>(shared);  // [kTile][kTile + 1]: a column of it meets every bank once
    const int minor = thread_index() % kTile;
    const int major = thread_index() / kTile;
    const int first_column = block_index_x() * kTile;
    for (int first_token = block_index_y() * kTile; first_token < ldt; first_token += grid_size_y() * kTile) {
      for (int t = major; t < kTile; t += kRowThreads) {
        const bool exists = first_token + t < n && first_column + minor < cols;
        const i64 from = static_cast<i64>(first_token + t) * ldx + first_column + minor;
        tile[t * (kTile + 1) + minor] = exists ? to_float(load_coherent(x + from)) : 0.0F;
      }
      block_barrier();
      for (int k = major; k < kTile; k += kRowThreads) {
        if (first_column + k < cols && first_token + minor < ldt) {
          xt[static_cast<i64>(first_column + k) * ldt + first_token + minor] =
              from_float<Value>(tile[minor * (kTile + 1) + k]);
        }
      }
      block_barrier();
    }
  }
};

}  // namespace sparsmith
