// X as operands that a launch in front has laid out (kernels/relayout_operands.cuh), for kernels that take it as
// fragments (prolog/fragment_input.cuh): whole lines at places known when a warp begins, whatever the layout and
// alignment of X were, and 0 beyond it.
#pragma once

#include "formats/operand_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/laid_out_operands.cuh"

namespace sparsmith {

template <class Value_, bool kTokenMajor_>
struct FragmentOperands {
  SPARSMITH_ROLE(prolog)
  static_assert(sizeof(Value_) == 2, "tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr bool kTokenMajor = kTokenMajor_;
  // Words 2 q and 2 q + 1 are the fragment of multiplication q.
  using Fragment = Vector<u32, 4>;

  LaidOutOperands<Value, kTokenMajor> laid_out;

  SPARSMITH_DEVICE explicit FragmentOperands(const LaidOutOperands<Value, kTokenMajor>& laid_out_)
      : laid_out(laid_out_) {}

  // A lane's part of kTokens tokens, which are a token block, by kColumns columns, which goes along the columns.
  template <int kTokens, int kColumns>
  struct Window {
    static constexpr int kTiles = kTokens / operands::kTileTokens;
    static constexpr int kChunks = kColumns / operands::kChunkColumns;
    Fragment fragments[kTiles][kChunks];

    SPARSMITH_DEVICE Window(const FragmentOperands& input, int first_token, int column) {
      const i64 strip =
          static_cast<i64>(first_token / kTokens) * input.laid_out.strips + column / operands::kChunkColumns;
      next = input.laid_out.operands + strip * (kTiles * operands::kChunkBytes) + lane_index() * 16;
    }

    // Loads the fragments at the next columns.
    SPARSMITH_DEVICE void load() {
      SPARSMITH_UNROLL for (int i = 0; i < kTiles; ++i) {
        SPARSMITH_UNROLL for (int u = 0; u < kChunks; ++u) {
          fragments[i][u] =
              load_coherent(reinterpret_cast<const Fragment*>(next + (u * kTiles + i) * operands::kChunkBytes));
        }
      }
      skip();
    }
    SPARSMITH_DEVICE void skip() { next += kChunks * kTiles * operands::kChunkBytes; }

   private:
    const u8* next;  // this lane's fragment of the next columns and the first tokens
  };

  SPARSMITH_DEVICE float element(int token, int column) const { return laid_out.element(token, column); }
};

}  // namespace sparsmith
