// Copies X to B operands of tensor cores in the workspace, in the order of the weight's columns. So the many blocks
// that multiply by them load whole lines, whatever the layout of X was.
//
// A warp makes one chunk of a token tile at a time; each lane makes the 16 bytes that one lane loads of it
// (formats/operand_layout.h). It loads 16 contiguous bytes of token-major X if it can, otherwise single elements, whose
// loads do not wait for one another. The grid's x runs over chunks, its y over token tiles, where it strides.
#pragma once

#include "formats/operand_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/operand_orders.cuh"

namespace sparsmith {

template <class Value, class Order, bool kTokenMajor, int kThreads>
struct RelayoutOperandsKernel {
  SPARSMITH_ROLE(kernel)
  static_assert(sizeof(Value) == 2, "tensor cores take 16-bit values");

  using Words = Vector<u32, 4>;

  struct Input {
    const Value* x;
    i64 ldx;
    int cols;
    int n;
  };

  //   block_tiles: token tiles per token block.
  static SPARSMITH_DEVICE void run(const Input& input, u8* operands, int strips, int block_tiles) {
    launch_dependents();
    wait_for_previous();
    const int chunk = block_index_x() * (kThreads / operands::kLanes) + warp_index();
    if (chunk >= strips * Order::kChunks) return;
    const u64 places = reinterpret_cast<u64>(input.x) | static_cast<u64>(input.ldx) * sizeof(Value);
    const int block_tokens = block_tiles * operands::kTileTokens;
    const int tiles = (input.n + block_tokens - 1) / block_tokens * block_tiles;
    for (int tile = block_index_y(); tile < tiles; tile += grid_size_y()) {
      const i64 strip = static_cast<i64>(tile / block_tiles) * strips + chunk / Order::kChunks;
      const i64 at = (strip * block_tiles + tile % block_tiles) * Order::kChunks + chunk % Order::kChunks;
      const Words words = load(input, tile * operands::kTileTokens + lane_index() / 4, chunk, places);
      store_whole(reinterpret_cast<Words*>(operands) + at * operands::kLanes + lane_index(), words);
    }
  }

 private:
  // This lane's part of `token` in a chunk. It is 0 beyond X.
  static SPARSMITH_DEVICE Words load(const Input& input, int token, int chunk, u64 places) {
    const int strip_column = chunk / Order::kChunks * (Order::kChunks * operands::kChunkColumns);
    const auto column = [&](int word) {
      return strip_column + Order::column(chunk % Order::kChunks, lane_index(), word);
    };
    Words words = {};
    if (token >= input.n) return words;
    if constexpr (kTokenMajor) {
      const Value* of_token = input.x + token * input.ldx;
      if (Order::kNeighbours && places % 16 == 0 && column(0) + 8 <= input.cols) {
        return load_coherent(reinterpret_cast<const Words*>(of_token + column(0)));
      }
      if (places % 4 == 0 && input.cols % 2 == 0) {
        SPARSMITH_UNROLL for (int w = 0; w < 4; ++w) {
          if (column(w) < input.cols) words[w] = load_coherent(reinterpret_cast<const u32*>(of_token + column(w)));
        }
        return words;
      }
    }
    SPARSMITH_UNROLL for (int e = 0; e < 8; ++e) {
      const int at = column(e / 2) + e % 2;
      if (at >= input.cols) continue;
      const Value* from = input.x + (kTokenMajor ? token * input.ldx + at : at * input.ldx + token);
      words[e / 2] |= static_cast<u32>(load_coherent(from).bits) << (16 * (e % 2));
    }
    return words;
  }
};

}  // namespace sparsmith
