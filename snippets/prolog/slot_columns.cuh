// The columns of a lane's tile in the slots format, in the widths that they are stored in.
//
// A lane loads its kVectorWidth columns as one or two vectors, and expand() turns them into byte offsets into x: one
// dot-product instruction each, which picks the bits, scales them and adds the base. What is padding either has the
// column K (uint16, uint32), where x is 0, or a weight of 0 (8-bit columns) or -0 (3, 4 and 6 bits).
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

  // Where byte `at` of a lane's stands.
  static SPARSMITH_DEVICE const u8* address(const u8* from, int lane, int at) {
    constexpr int kPiece = kPerLoad * static_cast<int>(sizeof(T));
    return from + (at / kPiece * slots::kLanes + lane) * kPiece + at % kPiece;
  }
};

// 2 bytes a column: K <= 65,535.
template <int kVectorWidth_>
struct Columns16 {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 4, 8, 16)

  static constexpr int kVectorWidth = kVectorWidth_;
  static constexpr bool kMultipliesPadding = false;
  using Words = LaneVector<u32, kVectorWidth / 2>;
  static constexpr int kTileBytes = Words::kBytes;

  Words words;

  SPARSMITH_DEVICE void load(const u8* from, int lane) { words.load(from, lane); }

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) {
      offsets[e] = dot_halves(words[e / 2], e % 2 == 0 ? kScale : kScale << 8, 0);
    }
  }
};

// 4 bytes a column: any K.
template <int kVectorWidth_>
struct Columns32 {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 4, 8, 16)

  static constexpr int kVectorWidth = kVectorWidth_;
  static constexpr bool kMultipliesPadding = false;
  using Words = LaneVector<u32, kVectorWidth>;
  static constexpr int kTileBytes = Words::kBytes;

  Words words;

  SPARSMITH_DEVICE void load(const u8* from, int lane) { words.load(from, lane); }

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    SPARSMITH_UNROLL for (int e = 0; e < kVectorWidth; ++e) offsets[e] = words[e] * kScale;
  }
};

// 1 byte a column and a 16-bit base a lane. kDeltas: each is the distance to the column before, else to the base.
template <int kVectorWidth_, bool kDeltas>
struct Columns8 {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 4, 8, 16)

  static constexpr int kVectorWidth = kVectorWidth_;
  static constexpr bool kMultipliesPadding = true;
  static constexpr bool kPadsBetween = false;
  using Words = LaneVector<u32, kVectorWidth / 4>;
  static constexpr int kTileBytes = Words::kBytes + slots::kLanes * 2;

  Words words;
  u32 base;

  SPARSMITH_DEVICE void load(const u8* from, int lane) {
    words.load(from, lane);
    base = load_streaming_word(reinterpret_cast<const u16*>(from + Words::kBytes) + lane);
  }

  // Calls visit(e, offset) for each place of a lane's tile that has a nonzero. Column by column from memory, for what
  // is rarely done.
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
    u32 from = base * static_cast<u32>(kScale);
    offsets[0] = from;
    SPARSMITH_UNROLL for (int e = 1; e < kVectorWidth; ++e) {
      u32 weights = static_cast<u32>(kScale) << (8 * (e % 4));  // byte e
      if constexpr (kDeltas) {
        // All bytes up to e of its word; of the first word not byte 0, which is the count.
        SPARSMITH_UNROLL for (int before = e < 4 ? 1 : 0; before < e % 4; ++before) {
          weights |= static_cast<u32>(kScale) << (8 * before);
        }
      }
      offsets[e] = dot_bytes(words[e / 4], weights, from);
      if (kDeltas && e % 4 == 3) from = offsets[e];
    }
  }
};

// Distances in 3, 4 or 6 bits: columns.steps(i) makes those of the lane's four neighbours i bytes of a word, `steps`.
// Offsets are their sums; what each is longer than stored is the same for all lanes, and ends up in the addresses of
// the gathers. `from`: the sum of all before, and then with these four.
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

// Of all of a lane's columns.
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

// Calls visit(e, offset) for each place of a lane's tile, by the same words. Rarely done: in few registers.
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

// Half a byte a column, its distance to the one before, and a 16-bit base a lane. Long distances have padding between.
template <int kVectorWidth_>
struct Columns4 {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kVectorWidth_, 8, 16, 32)

  static constexpr int kVectorWidth = kVectorWidth_;
  static constexpr int kLeastStep = 0;  // longer than stored
  static constexpr bool kMultipliesPadding = true;
  static constexpr bool kPadsBetween = true;
  using Words = LaneVector<u32, kVectorWidth / 8>;
  static constexpr int kTileBytes = Words::kBytes + slots::kLanes * 2;

  Words words;
  u32 base;

  SPARSMITH_DEVICE void load(const u8* from, int lane) {
    words.load(from, lane);
    base = load_streaming_word(reinterpret_cast<const u16*>(from + Words::kBytes) + lane);
  }

  SPARSMITH_DEVICE u32 steps(int i) const { return words[i / 2] >> (i % 2 * 4) & 0x0F0F0F0FU; }

  // Calls visit(e, offset) for each place of a lane's tile. Column by column from memory, for what is rarely done.
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

// Three words of a lane and a 16-bit base.
struct ThreeWords {
  SPARSMITH_ROLE(prolog)

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
};

// The same with 6 bits: the words have four of a lane's 16 columns each, and those of the last four in pieces.
struct Columns6 : ThreeWords {
  SPARSMITH_ROLE(prolog)

  static constexpr int kVectorWidth = 16;
  static constexpr int kLeastStep = 0;
  static constexpr bool kMultipliesPadding = true;
  static constexpr bool kPadsBetween = true;

  SPARSMITH_DEVICE u32 steps(int i) const {
    constexpr u32 kWhole = 0x3F3F3F3FU;  // of each byte, what is a distance
    if (i < 3) return word(i) & kWhole;
    const u32 pieces = (word(0) & 0xC0C0C0C0U) | (word(1) >> 2 & 0x30303030U) | (word(2) >> 4 & 0x0C0C0C0CU);
    return pieces >> 2;
  }

  template <int kScale, class Visit>
  static SPARSMITH_DEVICE void visit_places(const u8* from, int lane, const Visit& visit) {
    visit_steps<kScale, Columns6>(from, lane, visit);
  }

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    expand_steps<kScale>(*this, offsets);
  }
};

// With 3 bits, of distances from 1 on: the words have eight of a lane's 32 columns each, and the last eight in pieces.
struct Columns3 : ThreeWords {
  SPARSMITH_ROLE(prolog)

  static constexpr int kVectorWidth = 32;
  static constexpr int kLeastStep = 1;
  static constexpr bool kMultipliesPadding = true;
  static constexpr bool kPadsBetween = true;

  SPARSMITH_DEVICE u32 steps(int i) const {
    constexpr u32 kWhole = 0x07070707U;  // of each byte, what is a distance
    if (i < 6) return word(i / 2) >> (i % 2 * 3) & kWhole;
    constexpr u32 kLow = 0x03030303U;   // bits 0-1 of each byte
    constexpr u32 kHigh = 0x04040404U;  // bit 2
    return (word(i == 6 ? 0 : 2) >> 6 & kLow) | (word(1) >> (i - 2) & kHigh);
  }

  template <int kScale, class Visit>
  static SPARSMITH_DEVICE void visit_places(const u8* from, int lane, const Visit& visit) {
    visit_steps<kScale, Columns3>(from, lane, visit);
  }

  template <int kScale>
  SPARSMITH_DEVICE void expand(u32 (&offsets)[kVectorWidth]) const {
    expand_steps<kScale>(*this, offsets);
  }
};

}  // namespace sparsmith
