// X to the B operands of mma.sp.m16n8k32 in the workspace, in the order of columns of two_four weights, so that the
// many blocks that multiply by them load whole lines and exchange nothing.
//
// A thread makes what one lane takes for one multiplication: of the lanes 2 p and 2 p + 1 of a quad the even one has
// the first two columns of four groups, the odd one the last two (formats/two_four_layout.h). Beyond X operands are 0.
#pragma once

#include "formats/two_four_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, bool kTokenMajor, int kThreads>
struct RelayoutOperandsKernel {
  SPARSMITH_ROLE(kernel)
  static_assert(sizeof(Value) == 2, "sparse tensor cores take 16-bit values");

  using Words = Vector<u32, 4>;

  //   operands: [strip][token_tiles][2][32], 16 bytes each. Threads stride over them.
  static SPARSMITH_DEVICE void run(const Value* x, i64 ldx, u8* operands, int strips, int token_tiles, int cols,
                                   int n) {
    launch_dependents();
    wait_for_previous();
    const i64 count = static_cast<i64>(strips) * token_tiles * 2 * two_four::kLanes;
    const i64 stride = static_cast<i64>(grid_size_x()) * kThreads;
    const bool by_pairs = kTokenMajor && (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % 4 == 0;
    for (i64 i = static_cast<i64>(block_index_x()) * kThreads + thread_index(); i < count; i += stride) {
      const int lane = static_cast<int>(i % two_four::kLanes);
      const int step = static_cast<int>(i / two_four::kLanes % 2);
      const i64 tile = i / (2 * two_four::kLanes);
      const int token = static_cast<int>(tile % token_tiles) * 8 + lane / 4;
      const int strip = static_cast<int>(tile / token_tiles);
      const int column = strip * two_four::kStripColumns + lane / 2 % 2 * 32 + step * 8 + lane % 2 * 2;
      Words words;
      SPARSMITH_UNROLL for (int w = 0; w < 4; ++w) {
        words[w] = pair(x, ldx, token, column + w / 2 * 16 + w % 2 * 4, cols, n, by_pairs);
      }
      store_whole(reinterpret_cast<Words*>(operands) + i, words);
    }
  }

 private:
  // Two neighbouring columns of a token.
  static SPARSMITH_DEVICE u32 pair(const Value* x, i64 ldx, int token, int column, int cols, int n, bool by_pairs) {
    if (token >= n || column >= cols) return 0;
    const Value* from = kTokenMajor ? x + token * ldx + column : x + column * ldx + token;
    if (by_pairs && column + 1 < cols) return load_coherent(reinterpret_cast<const u32*>(from));
    const u32 first = load_coherent(from).bits;
    if (column + 1 == cols) return first;
    return first | static_cast<u32>(load_coherent(from + (kTokenMajor ? 1 : ldx)).bits) << 16;
  }
};

}  // namespace sparsmith
