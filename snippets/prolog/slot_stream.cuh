// Streams a weight in the slots format from global memory: tiles of kVectorWidth nonzeros per lane.
//
// A warp loads a tile as rows of up to 512 bytes. Their address follows from the block and the warp alone. A tile stays
// in registers, as loaded, until x arrives.
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
  static constexpr int kLoads = Words::kLoads;
  static constexpr int kBytes = Words::kBytes;

  Words words;

  SPARSMITH_DEVICE void load(const u8* from, int lane) { words.load(from, lane); }
  SPARSMITH_DEVICE void load_part(int i, const u8* from, int lane) { words.load_part(i, from, lane); }
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

// A warp's tiles: the value and the column of each nonzero of a lane.
template <class Value, class Columns_>
struct SlotStream {
  SPARSMITH_ROLE(prolog)

  using Columns = Columns_;
  static constexpr int kVectorWidth = Columns::kVectorWidth;
  using Values = LaneValues<Value, kVectorWidth>;
  static constexpr int kTileBytes = Values::kBytes + Columns::kTileBytes;
  static constexpr bool kInParts = kVectorWidth > 16;  // a tile is loaded while the one before is multiplied

  struct Tile {
    Values values;
    Columns columns;

    SPARSMITH_DEVICE void load(const u8* from, int lane) {
      values.load(from, lane);
      columns.load(from + Values::kBytes, lane);
    }

    // Adds the products with x of kTokens tokens to their chains of sums, which the nonzeros take in turn. If there are
    // `more` tiles, the tile at `next` is loaded in place; each part of a wide tile is loaded as soon as its registers
    // are free.
    template <class Input, int kTokens, int kChains>
    SPARSMITH_DEVICE void multiply(const Input& input, float (&sums)[kTokens][kChains], bool more, const u8* next,
                                   int lane) {
      if constexpr (kInParts) {
        multiply_parts(input, sums, more, next, lane);
      } else {
        u32 offsets[kVectorWidth];
        columns.template expand<Input::kScale>(offsets);
        SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) add_product(e, offsets[e], input, sums);
        if (more) load(next, lane);
      }
    }

   private:
    template <class Input, int kTokens, int kChains>
    SPARSMITH_DEVICE void add_product(int e, u32 offset, const Input& input, float (&sums)[kTokens][kChains]) const {
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
        sums[t][e % kChains] = multiply_add(values[e], input.at(offset, t), sums[t][e % kChains]);
      }
    }

    template <class Input, int kTokens, int kChains>
    SPARSMITH_DEVICE void multiply_parts(const Input& input, float (&sums)[kTokens][kChains], bool more, const u8* next,
                                         int lane) {
      constexpr int kPart = kVectorWidth / Values::kLoads;
      const Columns current = columns;
      if (more) columns.load(next + Values::kBytes, lane);
      u32 from = current.base * static_cast<u32>(Input::kScale);
      SPARSMITH_UNROLL for (int part = 0; part < Values::kLoads; ++part) {
        SPARSMITH_UNROLL for (int e = part * kPart; e < (part + 1) * kPart; e += 4) {
          u32 offsets[4];
          expand_four<Input::kScale, Columns>(current.steps(e / 4), e / 4, from, offsets);
          SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) add_product(e + i, offsets[i], input, sums);
        }
        if (more) values.load_part(part, next, lane);
        warp_barrier();  // keeps the load there: ptxas would put it behind the last product
      }
    }
  };

  // Adds the products of a lane's tile to the sums of kTokens tokens, nonzero by nonzero. It leaves out padding, whose
  // x may be infinite. Only for columns that multiply padding.
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
