// The places of the tiles of a two_four weight (formats/two_four_layout.h).
#pragma once

#include "formats/two_four_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// For blocks of kTiles tiles, one below the other: some of a panel's four tiles, or all.
template <class Value_, int kTiles_>
struct TwoFourTiles {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTiles_, 1, 2, 4)
  static_assert(sizeof(Value_) == 2, "sparse tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr int kTiles = kTiles_;
  static constexpr int kBytes = kTiles * two_four::kTileBytes;

  const u8* tiles;
  int strips;  // of a panel

  // The tiles of row tile `row_tile` (of 16 kTiles rows) in a strip. They are contiguous; the tiles of the next strip
  // are kStripBytes further.
  SPARSMITH_DEVICE const u8* at(int row_tile, int strip) const {
    constexpr int kOfPanel = two_four::kPanelTiles / kTiles;
    const i64 strip_of_all = static_cast<i64>(row_tile / kOfPanel) * strips + strip;
    return tiles + strip_of_all * two_four::kStripBytes + row_tile % kOfPanel * kBytes;
  }

  // A lane's share of multiplication `step` of a tile, from the tiles of a strip that have been copied to `strip`.
  using Operand = Vector<u32, 4>;
  static SPARSMITH_DEVICE Operand operand(const u8* strip, int tile, int step) {
    const u8* from = strip + tile * two_four::kTileBytes + step * two_four::kFragmentBytes;
    return reinterpret_cast<const Operand*>(from)[lane_index() ^ step];
  }
  static SPARSMITH_DEVICE u32 metadata(const u8* strip, int tile) {
    const u8* from = strip + tile * two_four::kTileBytes + two_four::kValueBytes;
    return reinterpret_cast<const u32*>(from)[lane_index() / 4 * 4 + lane_index() % 2 * 2 + lane_index() / 2 % 2];
  }

  // A tile in shared memory as operands of warpgroups: two multiplications with 32 columns of X each, in their order.
  // So groups stand in other lanes of the quad than for operand(), and places in other words.
  class WideTile {
   public:
    SPARSMITH_DEVICE explicit WideTile(const u8* tile) {
      const int lane = lane_index();
      const u8* first = tile + (half() * two_four::kLanes + lane / 4 * 4 + lane % 2 * 2) * 16;
      SPARSMITH_UNROLL for (int m = 0; m < 2; ++m) values_[m] = shared_address(first + (m ^ half()) * 16);
      places_ = tile + two_four::kValueBytes + (lane / 4 * 4 + lane % 2 * 2) * 4;
    }

    // Of the tile `at` bytes further on. Operands: TileSums::SparseOperands.
    template <class Operands>
    SPARSMITH_DEVICE void load(u32 at, Operands& operands) const {
      SPARSMITH_UNROLL for (int m = 0; m < 2; ++m) {
        const auto values = load_shared<Operand>(advanced(values_[m], at));
        SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) operands.values[m][i] = values[i];
      }
      // A half of each word has the places of four groups of a row, of both multiplications by turns.
      const auto words = *reinterpret_cast<const Vector<u32, 2>*>(places_ + at);
      u32 pairs[2];
      SPARSMITH_UNROLL for (int q = 0; q < 2; ++q) {
        const u32 own = words[q] >> 4 * half() & 0x0F0F0F0FU;
        pairs[q] = own | own >> 4;
      }
      operands.metadata = permute_bytes(pairs[0], pairs[1], 0x6240U);
    }

   private:
    static SPARSMITH_DEVICE int half() { return lane_index() / 2 % 2; }  // of the quad

    SharedAddress values_[2];  // of the multiplications
    const u8* places_;
  };

  // One element of a tile. Returns the bits of kNothing if the weight does not hold it. (place_of_group() says the same
  // to the host.)
  static SPARSMITH_DEVICE Value element(const u8* tile, int row, int column) {
    const int odd = column / 16 % 2;
    const int fragment = column / 8 % 2;
    const int group = column / 4 % 2 * 2 + column / 32;
    const int quad = row % 8 * 4;
    const auto* words = reinterpret_cast<const u32*>(tile + two_four::kValueBytes);
    const u32 places = load_cached(words + quad + 2 * odd + fragment) >> (row / 8 * 16 + group * 4);
    const u32 place = static_cast<u32>(column) % two_four::kGroup;
    const int second = (places >> 2 & 3U) == place ? 1 : 0;
    if (second == 0 && (places & 3U) != place) return {two_four::kNothing};
    const int lane = quad + group;
    const int first = (fragment * two_four::kLanes + (lane ^ fragment)) * 8 + 4 * odd + row / 8 * 2;
    return load_cached(reinterpret_cast<const Value*>(tile) + first + second);
  }

  // The sum over the elements that the weight holds of row `row` of the tiles, in strips [first, end). Rare, so it uses
  // loops.
  template <class Input>
  SPARSMITH_DEVICE float exact_sum(const Input& input, int row_tile, int first, int end, int row, int token) const {
    float sum = 0.0F;
    SPARSMITH_ROLLED for (int strip = first; strip < end; ++strip) {
      const u8* tile = at(row_tile, strip) + row / two_four::kTileRows * two_four::kTileBytes;
      SPARSMITH_ROLLED for (int column = 0; column < two_four::kStripColumns; ++column) {
        const Value weight = element(tile, row % two_four::kTileRows, column);
        if (weight.bits == two_four::kNothing) continue;
        const float x = input.element(token, strip * two_four::kStripColumns + column);
        sum = multiply_add(to_float(weight), x, sum);
      }
    }
    return sum;
  }
};

// The strips of a two_four weight that a warp copies: every kWarps-th strip of a row tile. All have the same size, and
// lie at equal distances.
template <class Tiles_, int kWarps>
struct TwoFourBounds {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kWarps, 2, 4, 8, 16)

  using Tiles = Tiles_;

  Tiles tiles;
  const u8* next = nullptr;
  int left = 0;  // strips that were not taken

  // Turns to the strips of row tile `row_tile` from `begin` to `end`.
  SPARSMITH_DEVICE void turn_to(int row_tile, int begin, int end) {
    next = tiles.at(row_tile, begin);
    left = (end - begin + kWarps - 1) / kWarps;
  }

  // Returns whether there is a next strip, and its place.
  SPARSMITH_DEVICE bool take(const u8*& from, int& units) {
    if (left <= 0) return false;
    from = next;
    units = Tiles::kBytes / 16;
    --left;
    next += kWarps * two_four::kStripBytes;
    return true;
  }

  // The same, before any strip is waited for.
  SPARSMITH_DEVICE bool take_early(const u8*& from, int& units) { return take(from, units); }
};

}  // namespace sparsmith
