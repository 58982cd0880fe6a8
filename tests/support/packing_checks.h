// What the tests of every packed format ask of packer and unpacker.
#pragma once

#include <gtest/gtest.h>

#include <iterator>

#include "formats/packed_format.h"
#include "tests/support/drawn_matrix.h"
#include "tests/support/packings.h"

namespace sparsmith::test {

// Unpacking gives the matrix back. Its values are exact in the type that it was packed in.
inline void expect_unpacks_to(const CsrMatrix& matrix, const PackedWeight& packed) {
  const Result<CsrMatrix> back = unpack(packed);
  ASSERT_TRUE(back.ok()) << packed.packing << ": " << back.status().to_string();
  EXPECT_EQ(back->row_offsets, matrix.row_offsets) << packed.packing;
  EXPECT_EQ(back->column_indices, matrix.column_indices) << packed.packing;
  EXPECT_EQ(back->values, matrix.values) << packed.packing;
}

inline void expect_same_bytes(const PackedWeight& a, const PackedWeight& b) {
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (std::size_t i = 0; i < a.arrays.size(); ++i) EXPECT_EQ(a.arrays[i].bytes, b.arrays[i].bytes) << a.packing;
}

// Does to a packed weight what a broken file may: a byte or a bit of an array changes, and now and then the length of
// an array, a fact or the shape.
inline void damage(Random& random, PackedWeight& packed) {
  PackedArray& array = packed.arrays[random() % packed.arrays.size()];
  if (random() % 4 == 0) array.bytes.resize(random() % (array.bytes.size() + 9));
  if (random() % 16 == 0) array.bytes.clear();
  if (!array.bytes.empty()) {
    std::byte& byte = array.bytes[random() % array.bytes.size()];
    byte = random() % 2 == 0 ? static_cast<std::byte>(random()) : byte ^ static_cast<std::byte>(1U << random() % 8);
  }
  if (random() % 8 == 0 && !packed.facts.empty()) {
    std::int64_t& fact =
        std::next(packed.facts.begin(), static_cast<std::ptrdiff_t>(random() % packed.facts.size()))->second;
    fact = random() % 2 == 0 ? fact + static_cast<std::int64_t>(random() % 5) - 2
                             : static_cast<std::int64_t>(random() >> random() % 64);
  }
  if (random() % 16 == 0)
    (random() % 2 == 0 ? packed.rows : packed.cols) = static_cast<std::int64_t>(random() >> random() % 64);
}

// A packed weight may come from a broken file: after any damage it is refused, or some valid matrix comes out, without
// an access out of bounds (which a sanitizer sees). Some damage is sure to be refused.
//   draw: a packed weight to damage, whole; asked for now and then
inline void expect_damage_is_refused_or_harmless(Random& random, int rounds,
                                                 const std::function<Result<PackedWeight>()>& draw) {
  int refused = 0;
  PackedWeight whole;
  for (int round = 0; round < rounds; ++round) {
    if (round % 25 == 0) {
      Result<PackedWeight> drawn = draw();
      ASSERT_TRUE(drawn.ok()) << drawn.status().to_string();
      whole = *std::move(drawn);
    }
    PackedWeight packed = whole;
    damage(random, packed);
    const Result<CsrMatrix> back = unpack(packed);
    if (back.ok()) {
      ASSERT_TRUE(back->validate().ok()) << packed.packing << ": " << back->validate().to_string();
    } else {
      EXPECT_FALSE(back.status().message().empty());
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 10);
}

// An array of a packed weight, to be broken on purpose.
template <class T>
std::span<T> elements_of(PackedWeight& packed, const std::string& name) {
  for (PackedArray& array : packed.arrays)
    if (array.name == name) return {reinterpret_cast<T*>(array.bytes.data()), array.bytes.size() / sizeof(T)};
  ADD_FAILURE() << "no array " << name;
  return {};
}

}  // namespace sparsmith::test
