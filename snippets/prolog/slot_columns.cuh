// The columns of a lane's tile in the slots format, in all widths in which they are stored.
//
// A lane loads its kVectorWidth columns as one or two vectors. expand() turns them into byte offsets into x: one
// dot-product instruction each, which picks the bits, scales them and adds the base. Padding has either the column K
// (uint16, uint32), where x is 0, or a weight of 0 (8-bit columns) or -0 (3, 4 and 6 bits).
#pragma once

#include "formats/slots_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kCount elements of each lane, as loads of at most 16 bytes that are neighbours across the warp.
template <class T, int kCount>
struct LaneVector {
  SPARSMITH_ROLE(prolog)

  static constexpr int kPerLoad =
      kCount * static_cast<int>(sizeof(T)) <= 16 ? kCount : 16 / static_cast<int>(sizeof(T));
  static constexpr int kLoads = kCount / kPerLoad;
  static constexpr int kBytes = slots::kLanes * kCount * static_cast<int>(sizeof(T));  // of the warp

  Vector<T, kPerLoad> parts[kLoads];

  SPARSMITH_DEVICE void load(const u8* from, int lane) {
    SPARSMITH_UNROLL for (int i = 0; i < kLoads; ++i) load_part(i, from, lane);
  }
  SPARSMITH_DEVICE void load_part(int i, const u8* from, int lane) {
    parts[i] = load_streaming(reinterpret_cast<const Vector<T, kPerLoad>*>(from) + i * slots::kLanes + lane);
  }
  SPARSMITH_DEVICE const T& operator[](int i) const { return parts[i / kPerLoad][i % kPerLoad]; }

  // The address of byte `at` of a lane.
  static SPARSMITH_DEVICE const u8* address(const u8* from, int lane, int at) {
    constexpr int kPiece = kPerLoad * static_cast<int>(sizeof(T));
    return from + (at / kPiece * slots::kLanes + lane) * kPiece + at % kPiece;
  }
};

// kWords words per lane; the column of padding is K.
template <int kWords>
struct PlainColumns {
  SPARSMITH_ROLE(prolog)

  static constexpr bool kMultipliesPadding = false;
  using Words = LaneVector<u32, kWords>;
  static constexpr int kTileBytes = Words::kBytes;

  Words words;

  SPARSMITH_DEVICE void load(const u8* from, int lane) { words.load(from, lane); }
};

// kWords words per lane and a 16-bit base; padding is multiplied.
template <int kWords>
struct BasedColumns {
  SPARSMITH_ROLE(prolog)

  static constexpr bool kMultipliesPadding = true;
  using Words = LaneVector<u32, kWords>;
  static constexpr int kTileBytes = Words::kBytes + slots::kLanes * 2;

  Words words;
  u32 base;

  SPARSMITH_DEVICE void load(const u8* from, int lane) {
    words.load(from, lane);
    base = load_streaming_word(reinterpret_cast<const u16*>(from + Words::kBytes) + lane);
  }
};

// 2 bytes per column: K <= 65,535.
template <int kVectorWidth_>
struct Columns16 : PlainColumns<kVectorWidth_ / 2> {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 4, 8, 16)

  static constexpr int kVectorWidth = kVectorWidth_;

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) {
      offsets[e] = dot_halves(this->words[e / 2], e % 2 == 0 ? kScale : kScale << 8, 0);
    }
  }
};

// 4 bytes per column: any K.
template <int kVectorWidth_>
struct Columns32 : PlainColumns<kVectorWidth_> {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 4, 8, 16)

  static constexpr int kVectorWidth = kVectorWidth_;

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) offsets[e] = this->words[e] * kScale;
  }
};

// 1 byte per column and a 16-bit base per lane. kDeltas: each byte is the distance to the previous column, otherwise to
// the base.
template <int kVectorWidth_, bool kDeltas>
struct Columns8 : BasedColumns<kVectorWidth_ / 4> {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 4, 8, 16)

  static constexpr int kVectorWidth = kVectorWidth_;
  static constexpr bool kPadsBetween = false;
  using Words = typename BasedColumns<kVectorWidth / 4>::Words;

  // Calls visit(e, offset) for each place of a lane's tile that has a nonzero. Column by column from memory: for rare
  // cases.
  template <int kScale, class Visit>
  static SPARSMITH_DEVICE void visit_places(const u8* from, int lane, const Visit& visit) {
    const u32 base = load_cached(reinterpret_cast<const u16*>(from + Words::kBytes) + lane);
    const int count = load_cached_byte(Words::address(from, lane, 0));
    u32 column = base;
    SPARSMITH_ROLLED for (int e = 0; e < count; ++e) {
      const u32 step = e == 0 ? 0 : load_cached_byte(Words::address(from, lane, e));
      column = (kDeltas ? column : base) + step;
      visit(e, column * kScale);
    }
  }

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    u32 from = this->base * static_cast<u32>(kScale);
    offsets[0] = from;
    SPARSMITH_UNROLL for (int e = 1; e < kVectorWidth; ++e) {
      u32 weights = static_cast<u32>(kScale) << (8 * (e % 4));  // byte e
      if constexpr (kDeltas) {
        // All bytes of its word up to e, except byte 0 of the first word, which is the count.
        SPARSMITH_UNROLL for (int before = e < 4 ? 1 : 0; before < e % 4; ++before) {
          weights |= static_cast<u32>(kScale) << (8 * before);
        }
      }
      offsets[e] = dot_bytes(this->words[e / 4], weights, from);
      if (kDeltas && e % 4 == 3) from = offsets[e];
    }
  }
};

// Distances in 3, 4 or 6 bits: columns.steps(i) makes the distances of the lane's four neighbours i the bytes of a
// word, `steps`. Offsets are the sums of distances. The number by which stored distances are less is the same for all
// lanes, and becomes part of the gathers' addresses. `from`: the sum of all earlier distances; afterwards these four
// are included.
template <int kScale, class Columns>
SPARSMITH_DEVICE void expand_four(u32 steps, int i, u32& from, u32 (&offsets)[4]) {
  const u32 before = from;
  u32 weights = 0;  // all bytes up to e
  SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
    weights |= static_cast<u32>(kScale) << (8 * e);
    from = dot_bytes(steps, weights, before);
    offsets[e] = from + (4 * i + e) * Columns::kLeastStep * kScale;
  }
}

// The offsets of all of a lane's columns.
template <int kScale, class Columns>
SPARSMITH_DEVICE void expand_steps(const Columns& columns, u32 (&offsets)[Columns::kVectorWidth]) {
  constexpr int kFours = Columns::kVectorWidth / 4;
  u32 steps[kFours];
  SPARSMITH_UNROLL for (int i = 0; i < kFours; ++i) steps[i] = columns.steps(i);
  u32 from = columns.base * static_cast<u32>(kScale);
  SPARSMITH_UNROLL for (int i = 0; i < kFours; ++i) {
    u32 four[4];
    expand_four<kScale, Columns>(steps[i], i, from, four);
    SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) offsets[4 * i + e] = four[e];
  }
}

// Calls visit(e, offset) for each place of a lane's tile, from the same words. Rare, so it uses few registers.
template <int kScale, class Columns, class Visit>
SPARSMITH_DEVICE void visit_steps(const u8* from, int lane, const Visit& visit) {
  Columns columns;
  columns.load(from, lane);
  u32 column = columns.base;
  SPARSMITH_UNROLL for (int word = 0; word < Columns::kVectorWidth / 4; ++word) {
    const u32 steps = columns.steps(word);
    SPARSMITH_ROLLED for (int i = 0; i < 4; ++i) {
      column += steps >> (8 * i) & 0xFFU;
      visit(4 * word + i, column * kScale);
      column += Columns::kLeastStep;
    }
  }
}

// Half a byte per column, its distance to the previous column, and a 16-bit base per lane. Long distances have padding
// in between.
template <int kVectorWidth_>
struct Columns4 : BasedColumns<kVectorWidth_ / 8> {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 8, 16, 32)

  static constexpr int kVectorWidth = kVectorWidth_;
  static constexpr int kLeastStep = 0;  // longer than stored
  static constexpr bool kPadsBetween = true;
  using Words = typename BasedColumns<kVectorWidth / 8>::Words;

  SPARSMITH_DEVICE u32 steps(int i) const { return this->words[i / 2] >> (i % 2 * 4) & 0x0F0F0F0FU; }

  // Calls visit(e, offset) for each place of a lane's tile. Column by column from memory: for rare cases.
  template <int kScale, class Visit>
  static SPARSMITH_DEVICE void visit_places(const u8* from, int lane, const Visit& visit) {
    u32 column = load_cached(reinterpret_cast<const u16*>(from + Words::kBytes) + lane);
    SPARSMITH_ROLLED for (int e = 0; e < kVectorWidth; ++e) {
      column += load_cached_byte(Words::address(from, lane, e / 8 * 4 + e % 4)) >> (e & 4) & 0xFU;
      visit(e, column * kScale);
    }
  }

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    expand_steps<kScale>(*this, offsets);
  }
};

// Three words per lane and a 16-bit base. Columns: derives from it.
template <class Columns, int kVectorWidth_, int kLeastStep_>
struct ThreeWords {
  SPARSMITH_ROLE(prolog)

  static constexpr int kVectorWidth = kVectorWidth_;
  static constexpr int kLeastStep = kLeastStep_;
  static constexpr bool kMultipliesPadding = true;
  static constexpr bool kPadsBetween = true;
  using Words = LaneVector<u32, 2>;
  using LastWord = LaneVector<u32, 1>;
  static constexpr int kWordBytes = Words::kBytes + LastWord::kBytes;
  static constexpr int kTileBytes = kWordBytes + slots::kLanes * 2;

  Words words;
  LastWord last_word;
  u32 base;

  SPARSMITH_DEVICE void load(const u8* from, int lane) {
    words.load(from, lane);
    last_word.load(from + Words::kBytes, lane);
    base = load_streaming_word(reinterpret_cast<const u16*>(from + kWordBytes) + lane);
  }
  SPARSMITH_DEVICE u32 word(int i) const { return i < 2 ? words[i] : last_word[0]; }

  template <int kScale, class Visit>
  static SPARSMITH_DEVICE void visit_places(const u8* from, int lane, const Visit& visit) {
    visit_steps<kScale, Columns>(from, lane, visit);
  }

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    expand_steps<kScale>(static_cast<const Columns&>(*this), offsets);
  }
};

// With 6 bits: each word has four of a lane's 16 columns, and pieces of the last four.
struct Columns6 : ThreeWords<Columns6, 16, 0> {
  SPARSMITH_ROLE(prolog)

  SPARSMITH_DEVICE u32 steps(int i) const {
    constexpr u32 kWhole = 0x3F3F3F3FU;  // of each byte, what is a distance
    if (i < 3) return word(i) & kWhole;
    const u32 pieces = (word(0) & 0xC0C0C0C0U) | (word(1) >> 2 & 0x30303030U) | (word(2) >> 4 & 0x0C0C0C0CU);
    return pieces >> 2;
  }
};

// With 3 bits, for distances from 1 on: each word has eight of a lane's 32 columns, and pieces of the last eight.
struct Columns3 : ThreeWords<Columns3, 32, 1> {
  SPARSMITH_ROLE(prolog)

  SPARSMITH_DEVICE u32 steps(int i) const {
    constexpr u32 kWhole = 0x07070707U;  // of each byte, what is a distance
    if (i < 6) return word(i / 2) >> (i % 2 * 3) & kWhole;
    constexpr u32 kLow = 0x03030303U;   // bits 0-1 of each byte
    constexpr u32 kHigh = 0x04040404U;  // bit 2
    return (word(i == 6 ? 0 : 2) >> 6 & kLow) | (word(1) >> (i - 2) & kHigh);
  }
};

}  // namespace sparsmith
