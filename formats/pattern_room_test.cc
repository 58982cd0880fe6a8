#include "formats/pattern_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "formats/packed_format.h"
#include "formats/places.h"
#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

CsrMatrix weight(const char* pattern, std::uint64_t seed) {
  SynthesisSpec spec{.rows = 320, .cols = 416, .sparsity = 0.8, .data_type = DataType::kBFloat16, .seed = seed};
  spec.pattern = parse_synthesis_pattern(pattern).value();
  return synthesize(spec).value();
}

std::vector<PackedArrayView> views_of(const PackedWeight& packed) {
  std::vector<PackedArrayView> views;
  for (const PackedArray& array : packed.arrays) views.push_back({array.name, array.type, array.bytes});
  return views;
}

PatternRoom room_of(const PackedWeight& packed, std::int64_t block, bool written = true) {
  const std::vector<PackedArrayView> views = views_of(packed);
  Result<PatternRoom> room = pattern_room(
      {packed.packing, packed.packer_version, packed.rows, packed.cols, packed.value_type, views, &packed.facts},
      packed.nnz, block, written);
  EXPECT_TRUE(room.ok()) << room.status().to_string();
  return *std::move(room);
}

// The arrays of `packed` in this room. What group_tiles has behind its groups is the number of tiles.
PackedWeight moved(PackedWeight packed, const PatternRoom& room) {
  for (std::size_t i = 0; i < packed.arrays.size(); ++i) {
    PackedArray& array = packed.arrays[i];
    EXPECT_LE(array.bytes.size(), room.bytes[i]) << array.name;
    std::uint32_t last = 0;
    if (array.name == "group_tiles") last = array.as<std::uint32_t>().back();
    for (std::size_t at = array.bytes.size(); at < room.bytes[i]; at += sizeof(last)) {
      const auto word = std::as_bytes(std::span(&last, 1));
      array.bytes.insert(array.bytes.end(), word.begin(), word.end());
    }
  }
  packed.facts = room.facts;
  return packed;
}

Result<CsrMatrix> unpacked(const PackedWeight& packed, bool spare) {
  const std::vector<PackedArrayView> views = views_of(packed);
  return unpack({packed.packing, packed.packer_version, packed.rows, packed.cols, packed.value_type, views,
                 &packed.facts, spare});
}

class PatternRoomTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Packings, PatternRoomTest,
                         testing::Values("bsr_lines32", "bsr_lines64_transposed", "tile_masks_c32_r1_g128",
                                         "tile_masks_c64_r2_g512", "dense", "csr_u16_a1_natural"));

TEST_P(PatternRoomTest, TakesOtherPatterns) {
  const CsrMatrix first = weight("block:16", 1);
  const PackedWeight packed = pack(GetParam(), first, DataType::kBFloat16).value();
  const PatternRoom room = room_of(packed, 16);
  for (std::uint64_t seed = 2; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const CsrMatrix other = weight("block:16", seed);
    ASSERT_EQ(other.nnz(), first.nnz());
    const PackedWeight whole = pack(GetParam(), other, DataType::kBFloat16).value();
    const PackedWeight other_packed = moved(whole, room);
    const Result<CsrMatrix> matrix = unpacked(other_packed, true);
    ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
    EXPECT_EQ(matrix->row_offsets, other.row_offsets);
    EXPECT_EQ(matrix->column_indices, other.column_indices);
    EXPECT_EQ(unpacked(other_packed, false).ok(), other_packed.facts == whole.facts) << "files have no spare room";
  }
}

TEST(PatternRoomPlaces, FollowTheDensity) {
  const auto kind = [](const char* packing, const CsrMatrix& matrix, std::int64_t block) {
    const PatternRoom room = room_of(pack(packing, matrix, DataType::kBFloat16).value(), block);
    const std::int64_t words = static_cast<std::int64_t>(room.run_bytes / sizeof(std::uint32_t));
    const auto found = static_cast<PlaceArrays::Kind>(room.writer_facts.at(kPlaceKind));
    EXPECT_EQ(words, found == PlaceArrays::Kind::kMasks ? 3 * ((320 * 416 + 63) / 64) : room.writer_facts.at(kPlaces));
    return found;
  };
  EXPECT_EQ(kind("dense", weight("uniform", 1), 1), PlaceArrays::Kind::kMasks);
  EXPECT_EQ(kind("bsr_lines32", weight("block:32", 1), 32), PlaceArrays::Kind::kSources);
  EXPECT_EQ(kind("bsr_lines64", weight("uniform", 1), 1), PlaceArrays::Kind::kPlaces);
  EXPECT_EQ(room_of(pack("csr_u16_a1_natural", weight("uniform", 1), DataType::kBFloat16).value(), 1, false).run_bytes,
            0U);
}

TEST(PatternRoomPlaces, OtherPackingsAreErrors) {
  for (const char* packing : {"csr_u16_a8_sorted", "csr_u16_a1_sorted", "bsr_r1_listed"}) {
    const Result<PackedWeight> packed = pack(packing, weight("uniform", 1), DataType::kBFloat16);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const std::vector<PackedArrayView> views = views_of(*packed);
    const Result<PatternRoom> room = pattern_room(
        {packed->packing, 1, packed->rows, packed->cols, packed->value_type, views, &packed->facts}, 1, 1, true);
    EXPECT_EQ(room.status().code(), StatusCode::kUnsupported) << packing;
    EXPECT_THAT(room.status().message(), testing::HasSubstr(packing));
  }
}

}  // namespace
}  // namespace sparsmith
