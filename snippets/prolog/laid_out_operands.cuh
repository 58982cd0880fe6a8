// X as operands that an earlier launch has laid out (kernels/relayout_operands.cuh): whole lines at places that a warp
// knows from its start, whatever the layout and alignment of X were. Operands are 0 beyond X.
#pragma once

#include "formats/operand_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Operands (formats/operand_layout.h has their layout), and the X that they were made from, for look-ups of single
// elements.
template <class Value_, bool kTokenMajor_>
struct LaidOutOperands {
  SPARSMITH_ROLE(prolog)
  static_assert(sizeof(Value_) == 2, "tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr bool kTokenMajor = kTokenMajor_;

  const u8* operands;
  int strips;  // of a token block
  const Value* x;
  i64 ldx;
  int cols;
  int n;

  // One element; it is 0 outside X.
  SPARSMITH_DEVICE float element(int token, int column) const {
    if (token >= n || column >= cols) return 0.0F;
    return to_float(load_coherent(kTokenMajor ? x + token * ldx + column : x + column * ldx + token));
  }
};

// For kernels that use X as fragments (prolog/fragment_input.cuh).
template <class Value, bool kTokenMajor>
struct FragmentOperands : LaidOutOperands<Value, kTokenMajor> {
  SPARSMITH_ROLE(prolog)

  static constexpr bool kNatural = false;  // columns of W

  // Words 2 q and 2 q + 1 are the fragment of multiplication q.
  using Fragment = Vector<u32, 4>;

  // A lane's part of kTokens tokens, which are a token block, by kColumns columns; the window moves along the columns.
  template <int kTokens, int kColumns>
  struct Window {
    static constexpr int kTiles = kTokens / operands::kTileTokens;
    static constexpr int kChunks = kColumns / operands::kChunkColumns;
    Fragment fragments[kTiles][kChunks];

    SPARSMITH_DEVICE Window(const FragmentOperands& input, int first_token, int column) {
      const i64 strip = static_cast<i64>(first_token / kTokens) * input.strips + column / operands::kChunkColumns;
      next = input.operands + strip * (kTiles * operands::kChunkBytes) + lane_index() * 16;
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
    SPARSMITH_DEVICE void turn() {}  // they lie in the order of W's columns

   private:
    const u8* next;  // this lane's fragment of the next columns and the first tokens
  };
};

// By strips of 64 columns: a lane's part of half a strip is 16 bytes beside those of its neighbours. kTokenTiles: token
// tiles of a token block.
template <class Value, bool kTokenMajor, int kTokenTiles>
struct OperandInput : LaidOutOperands<Value, kTokenMajor> {
  SPARSMITH_ROLE(prolog)

  static constexpr bool kLaidOut = true;
  static constexpr int kStripColumns = 2 * operands::kChunkColumns;
  static constexpr int kTileBytes = 2 * operands::kChunkBytes;  // of a strip and 8 tokens
  static constexpr int kStripBytes = kTokenTiles * kTileBytes;
  using Words = Vector<u32, 4>;
  struct Fragment {
    u32 words[8];  // 4 q and on are what multiplications by half q take
  };

  const u8* next = nullptr;  // this lane's words of the strip that is loaded, in the first token tile

  // Turns to the token block that begins with `first_token`, and to the strip that begins at `first_column`.
  SPARSMITH_DEVICE void turn_to(int first_token, int first_column) {
    // Computed here each time, not kept for the block's next rows, because registers are short.
    const int block =
        static_cast<int>(known_here(static_cast<u32>(first_token))) / (kTokenTiles * operands::kTileTokens);
    const int strip_of_block = static_cast<int>(known_here(static_cast<u32>(first_column))) / kStripColumns;
    const i64 strip = static_cast<i64>(block) * this->strips + strip_of_block;
    next = this->operands + strip * kStripBytes + lane_index() * 16;
  }
  SPARSMITH_DEVICE void advance(int columns) { next += columns / kStripColumns * kStripBytes; }

  // This lane's words of half kStep of the strip, in token tile `tile`.
  template <int kStep>
  SPARSMITH_DEVICE void load(int tile, int /*first_column*/, Fragment& fragment) const {
    const u8* from = next + tile * kTileBytes + kStep * operands::kChunkBytes;
    const Words words = load_coherent(reinterpret_cast<const Words*>(from));
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) fragment.words[4 * kStep + i] = words[i];
  }

  template <int kStep>
  static SPARSMITH_DEVICE void take(const Fragment& fragment, u32 (&b)[4]) {
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) b[i] = fragment.words[4 * kStep + i];
  }
};

}  // namespace sparsmith
