// X as operands that a launch in front has laid out (kernels/relayout_operands.cuh), by strips of 64 columns: what a
// lane takes for half of one is 16 bytes beside those of its neighbours, whatever the layout and alignment of X were.
#pragma once

#include "formats/operand_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/laid_out_operands.cuh"

namespace sparsmith {

// kTokenTiles: of a token block.
template <class Value_, bool kTokenMajor_, int kTokenTiles>
struct OperandInput {
  SPARSMITH_ROLE(prolog)
  static_assert(sizeof(Value_) == 2, "tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr bool kTokenMajor = kTokenMajor_;
  static constexpr bool kLaidOut = true;
  static constexpr int kStripColumns = 2 * operands::kChunkColumns;
  static constexpr int kTileBytes = 2 * operands::kChunkBytes;  // of a strip and 8 tokens
  static constexpr int kStripBytes = kTokenTiles * kTileBytes;
  using Words = Vector<u32, 4>;
  struct Fragment {
    u32 words[8];  // 4 q and on are what multiplications by half q take
  };

  LaidOutOperands<Value, kTokenMajor> laid_out;
  const u8* next = nullptr;  // this lane's words of the strip that is loaded, in the first token tile

  SPARSMITH_DEVICE explicit OperandInput(const LaidOutOperands<Value, kTokenMajor>& laid_out_) : laid_out(laid_out_) {}

  // Turns to the token block that begins with `first_token`, and to the strip that begins at `first_column`.
  SPARSMITH_DEVICE void turn_to(int first_token, int first_column) {
    // Computed here each time, and not kept for the block's next rows: registers are short.
    const int block =
        static_cast<int>(known_here(static_cast<u32>(first_token))) / (kTokenTiles * operands::kTileTokens);
    const int strip_of_block = static_cast<int>(known_here(static_cast<u32>(first_column))) / kStripColumns;
    const i64 strip = static_cast<i64>(block) * laid_out.strips + strip_of_block;
    next = laid_out.operands + strip * kStripBytes + lane_index() * 16;
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

  SPARSMITH_DEVICE float element(int token, int column) const { return laid_out.element(token, column); }
};

}  // namespace sparsmith
