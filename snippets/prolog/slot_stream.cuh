// The weight in the slots format, streamed from global memory: tiles of kVectorWidth nonzeros a lane.
//
// A warp loads a tile as rows of up to 512 bytes whose address follows from the block and the warp alone. A tile stays
// in registers, as loaded, until x is there.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/slot_columns.cuh"

namespace sparsmith {

// The values of a lane as whole words, so that they stay as loaded until a product takes them apart.
template <class Value, int kCount>
struct LaneValues {
  SPARSMITH_ROLE(prolog)

  using Words = LaneVector<u32, kCount / 2>;
  static constexpr int kBytes = Words::kBytes;

  Words words;

  SPARSMITH_DEVICE void load(const u8* from, int lane) { words.load(from, lane); }
  SPARSMITH_DEVICE float operator[](int i) const {
    return to_float(Value{static_cast<u16>(i % 2 == 0 ? words[i / 2] : words[i / 2] >> 16)});
  }
  static SPARSMITH_DEVICE float load_one(const u8* from, int lane, int i) {
    return to_float(load_cached(reinterpret_cast<const Value*>(Words::address(from, lane, 2 * i))));
  }
};
template <int kCount>
struct LaneValues<float, kCount> : LaneVector<float, kCount> {
  static SPARSMITH_DEVICE float load_one(const u8* from, int lane, int i) {
    return load_cached(reinterpret_cast<const float*>(LaneVector<float, kCount>::address(from, lane, 4 * i)));
  }
};

// A warp's tiles: of each nonzero of a lane its value and its column.
template <class Value, class Columns_>
struct SlotStream {
  SPARSMITH_ROLE(prolog)

  using Columns = Columns_;
  static constexpr int kVectorWidth = Columns::kVectorWidth;
  using Values = LaneValues<Value, kVectorWidth>;
  static constexpr int kTileBytes = Values::kBytes + Columns::kTileBytes;

  struct Tile {
    Values values;
    Columns columns;

    SPARSMITH_DEVICE void load(const u8* from, int lane) {
      values.load(from, lane);
      columns.load(from + Values::kBytes, lane);
    }

    // Adds the products with x of kTokens tokens to their chains of sums, which the nonzeros take in turn.
    template <class Input, int kTokens, int kChains>
    SPARSMITH_DEVICE void multiply(const Input& input, float (&sums)[kTokens][kChains]) const {
      u32 offsets[kVectorWidth];
      columns.template expand<Input::kScale>(offsets);
      SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) {
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
          sums[t][e % kChains] = multiply_add(values[e], input.at(offsets[e], t), sums[t][e % kChains]);
        }
      }
    }
  };

  // Adds the products of a lane's tile to the sums of kTokens tokens, nonzero by nonzero: padding, whose x may be
  // infinite, is left out. Only where columns multiply padding.
  template <class Input, int kTokens>
  static SPARSMITH_DEVICE void add_nonzeros(const u8* from, int lane, const Input& input, float (&sums)[kTokens]) {
    Columns::template visit_places<Input::kScale>(from + Values::kBytes, lane, [&](int e, u32 offset) {
      const float value = Values::load_one(from, lane, e);
      if (Columns::kPadsBetween && value == 0.0F) return;
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) sums[t] = multiply_add(value, input.at(offset, t), sums[t]);
    });
  }
};

}  // namespace sparsmith
