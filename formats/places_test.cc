#include "formats/places.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <tuple>

#include "formats/hybrid.h"
#include "formats/packed_format.h"
#include "formats/stored_value.h"
#include "matrix/synthesis.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

class PlacesTest : public testing::TestWithParam<PackedFormat> {
 protected:
  DrawnPacking draw() {
    auto drawn = draw_packing(random_, GetParam().name, false);
    EXPECT_TRUE(drawn.ok()) << drawn.status().to_string();
    return *std::move(drawn);
  }

  // Others, of which some are 0, in the same pattern.
  void draw_values(CsrMatrix& matrix) {
    for (float& value : matrix.values)
      value = random_() % 8 == 0 ? 0.0F : rounded(static_cast<float>(random_() % 4096) / 512 - 4, DataType::kFloat16);
  }

  DrawnRandom random_;
};

INSTANTIATE_TEST_SUITE_P(Formats, PlacesTest, testing::ValuesIn(packed_formats().begin(), packed_formats().end()),
                         [](const auto& each) { return std::string(each.param.name); });

void write(PackedWeight& packed, std::uint32_t place, float value) {
  for (const ValueArray& array : value_arrays(packed)) {
    if (place < array.first_place || place >= array.first_place + array.count) continue;
    std::uint32_t bits = value_bits(value, packed.value_type);
    if (packed_format(packed.packing).value()->negative_zeros && bits == 0)
      bits = packed.value_type == DataType::kFloat32 ? 0x80000000U : 0x8000U;
    const std::size_t size = size_of(packed.value_type);
    const auto at = std::ranges::find(packed.arrays, array.name, &PackedArray::name);
    std::memcpy(at->bytes.data() + static_cast<std::size_t>(place - array.first_place) * size, &bits, size);
  }
}

TEST_P(PlacesTest, ValuesWrittenToTheirPlacesAreAsPackedAnew) {
  for (int round = 0; round < 60; ++round) {
    DrawnPacking drawn = draw();
    const Result<Places> places = places_of(drawn.packed.packing, drawn.matrix, drawn.packed.value_type);
    ASSERT_TRUE(places.ok()) << places.status().to_string();
    ASSERT_EQ(std::ssize(places->first), holds_values(drawn.packed.packing) ? drawn.matrix.nnz() : 0);
    std::int64_t elements = 0;
    for (const ValueArray& array : value_arrays(drawn.packed)) elements += array.count;
    const PlaceArrays arrays = place_arrays(drawn.packed.packing, *places, elements);
    const bool gathers = arrays.kind != PlaceArrays::Kind::kPlaces;
    const std::int64_t count = gathers ? elements : std::ssize(places->first);
    const Result<std::vector<std::uint32_t>> indices = indices_of(arrays, count, std::ssize(places->first));
    ASSERT_TRUE(indices.ok()) << indices.status().to_string();
    if (gathers) {
      std::vector<std::uint32_t> sources(count, PlaceArrays::kNoNonzero);
      for (std::size_t i = 0; i < places->first.size(); ++i) sources[places->first[i]] = static_cast<std::uint32_t>(i);
      for (const PlaceCopy& copy : places->copies) sources[copy.place] = copy.nonzero;
      ASSERT_EQ(*indices, sources);
    } else {
      ASSERT_EQ(*indices, places->first);
      EXPECT_EQ(arrays.copies, places->copies);
    }
    for (int update = 0; update < 2; ++update) {
      draw_values(drawn.matrix);
      for (std::size_t i = 0; i < places->first.size(); ++i)
        write(drawn.packed, places->first[i], drawn.matrix.values[i]);
      for (const PlaceCopy& copy : places->copies) write(drawn.packed, copy.place, drawn.matrix.values[copy.nonzero]);
      const auto anew = pack(drawn.packed.packing, drawn.matrix, drawn.packed.value_type);
      ASSERT_TRUE(anew.ok()) << anew.status().to_string();
      expect_same_bytes(drawn.packed, *anew);
      EXPECT_EQ(drawn.packed.facts, anew->facts) << drawn.packed.packing;
    }
  }
}

// Places of blocks take few bytes, also in the transpose.
TEST(PlaceArraysTest, NeighboursInBlocksShareOffsets) {
  SynthesisSpec spec{.rows = 512, .cols = 768, .sparsity = 0.75, .data_type = DataType::kBFloat16, .seed = 7};
  for (const auto& [block, packing, most] : {std::tuple{"block:64", "bsr_lines64", 0.2},
                                             {"block:64", "bsr_lines64_transposed", 0.3},
                                             {"block:32", "bsr_strips_r2", 0.2},
                                             {"block:32", "bsr_strips_r2_transposed", 0.3},
                                             {"block:32", "bsr_lines32", 0.5},
                                             {"block:32", "bsr_lines32_transposed", 0.6},
                                             {"block:16", "csr_u16_a1_natural", 0.2},
                                             {"uniform", "csr_u16_a1_natural_transposed", 4.0}}) {
    spec.pattern = parse_synthesis_pattern(block).value();
    const CsrMatrix matrix = synthesize(spec).value();
    const Result<Places> places = places_of(packing, matrix, DataType::kBFloat16);
    ASSERT_TRUE(places.ok()) << packing << ": " << places.status().to_string();
    std::int64_t elements = 0;
    for (const ValueArray& array : value_arrays(pack(packing, matrix, DataType::kBFloat16).value()))
      elements += array.count;
    const PlaceArrays runs = place_arrays(packing, *places, elements);
    EXPECT_EQ(runs.kind, PlaceArrays::Kind::kSources);
    const double bytes = 4.0 * static_cast<double>(runs.runs.size() + runs.offsets.size());
    EXPECT_LE(bytes, most * static_cast<double>(matrix.nnz())) << packing << ": runs of " << (1 << runs.bits);
    fmt::print("{} {}: {:.3f} bytes a nonzero, runs of {}\n", block, packing, bytes / static_cast<double>(matrix.nnz()),
               1 << runs.bits);
  }
}

// A dense weight with many nonzeros has masks; with few it has their places.
TEST(PlaceArraysTest, DenseWeightsHaveMasks) {
  const auto arrays_of = [](std::int64_t cols, double sparsity) {
    SynthesisSpec spec{.rows = 51, .cols = cols, .sparsity = sparsity, .data_type = DataType::kFloat16, .seed = 7};
    const CsrMatrix matrix = synthesize(spec).value();
    return place_arrays("dense", places_of("dense", matrix, DataType::kFloat16).value(), 51 * cols);
  };
  const PlaceArrays masks = arrays_of(99, 0.9);
  EXPECT_EQ(masks.kind, PlaceArrays::Kind::kMasks);
  EXPECT_EQ(masks.runs.size(), 3 * 79);  // 5049 elements in runs of 64
  EXPECT_EQ(arrays_of(99, 0.99).kind, PlaceArrays::Kind::kPlaces);
}

// Kernels read offsets where these say.
TEST(PlaceArraysTest, RunsOfAnotherOriginAreChecked) {
  using Kind = PlaceArrays::Kind;
  using Words = std::vector<std::uint32_t>;
  constexpr std::uint32_t kNone = PlaceArrays::kNoNonzero;
  const auto error = [](const PlaceArrays& arrays, std::int64_t count) {
    return indices_of(arrays, count, 16).status().message();
  };
  Words offsets = {0, 1, 2, 3, 4, 5, 6, 7, 7, kNone, 6, 5, 4, 3, 2, 1};
  const PlaceArrays places{Kind::kPlaces, 3, {0, 8, 4, 0}, {0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 6, 5, 4, 3, 2, 1}, {{5, 9}}};
  EXPECT_EQ(indices_of(places, 16, 16).value(), (Words{7, 8, 6, 5, 4, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(indices_of({Kind::kSources, 3, {1, 8}, offsets, {}}, 8, 16).value(), (Words{8, kNone, 7, 6, 5, 4, 3, 2}));
  EXPECT_EQ(indices_of({Kind::kSources, 0, {1, kNone}, {}, {}}, 2, 16).value(), (Words{1, kNone}));
  EXPECT_EQ(indices_of({Kind::kMasks, 6, {3, 5, 0}, {}, {}}, 4, 16).value(), (Words{3, kNone, 4, kNone}));
  using testing::HasSubstr;
  EXPECT_THAT(error(places, 17), HasSubstr("17 places are not in runs of 8"));
  EXPECT_THAT(error(places, 8), HasSubstr("are not in runs"));
  EXPECT_THAT(error({Kind::kPlaces, 2, {0, 0}, offsets, {}}, 4), HasSubstr("are not in runs of 4"));
  EXPECT_THAT(error({Kind::kMasks, 5, {3, 5, 0}, {}, {}}, 4), HasSubstr("are not in runs of 32"));
  EXPECT_THAT(error({Kind::kMasks, 6, {3, 5}, {}, {}}, 4), HasSubstr("are not in runs of 64"));
  EXPECT_THAT(error({Kind::kMasks, 6, {3, 16, 0}, {}, {}}, 4), HasSubstr("a mask has places beyond 4"));
  EXPECT_THAT(error({Kind::kMasks, 6, {15, 5, 0}, {}, {}}, 4), HasSubstr("a place has nonzero 16 of 16"));
  for (const std::uint32_t begin : {4U, 9U, 16U, 0xFFFFFFF8U}) {
    PlaceArrays wrong = places;
    wrong.runs[1] = begin;
    EXPECT_THAT(error(wrong, 16), HasSubstr("begins at offset"));
  }
  EXPECT_THAT(error({Kind::kPlaces, 0, {0}, {}, {{16, 0}}}, 1), HasSubstr("a copy of nonzero 16 of 16"));
  EXPECT_THAT(error({Kind::kSources, 0, {16}, {}, {}}, 1), HasSubstr("a place has nonzero 16 of 16"));
  EXPECT_THAT(error({Kind::kSources, 3, {9, 0}, offsets, {}}, 8), HasSubstr("a place has nonzero 16 of 16"));
}

// Between values these formats have zeros alone, of the sign that no value has.
TEST_P(PlacesTest, ValuesStandAloneWhereTheFormatSaysSo) {
  if (!GetParam().values_alone) return;
  for (int round = 0; round < 60; ++round) {
    const DrawnPacking drawn = draw();
    if (HybridPacking::named(without_transposed(drawn.packed.packing))) continue;  // of two formats
    const Result<Places> places = places_of(drawn.packed.packing, drawn.matrix, drawn.packed.value_type);
    ASSERT_TRUE(places.ok()) << places.status().to_string();
    PackedWeight zeros = drawn.packed;
    PackedWeight between = drawn.packed;
    for (const ValueArray& array : value_arrays(drawn.packed)) {
      std::vector<std::byte>& bytes = std::ranges::find(zeros.arrays, array.name, &PackedArray::name)->bytes;
      std::ranges::fill(bytes, std::byte{0});
      const std::size_t size = size_of(drawn.packed.value_type);
      for (std::size_t sign = size - 1; sign < bytes.size() && !GetParam().negative_zeros; sign += size)
        bytes[sign] = std::byte{0x80};
    }
    for (PackedWeight* const each : {&zeros, &between}) {
      for (const std::uint32_t place : places->first) write(*each, place, 1.0F);
      for (const PlaceCopy& copy : places->copies) write(*each, copy.place, 1.0F);
    }
    expect_same_bytes(between, zeros);
  }
}

TEST_P(PlacesTest, StructureDependsOnThePatternAlone) {
  for (int round = 0; round < 60; ++round) {
    DrawnPacking drawn = draw();
    draw_values(drawn.matrix);
    const auto other = pack(drawn.packed.packing, drawn.matrix, drawn.packed.value_type);
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    EXPECT_EQ(drawn.packed.facts, other->facts) << drawn.packed.packing;
    for (std::size_t i = 0; i < drawn.packed.arrays.size(); ++i) {
      const PackedArray& array = drawn.packed.arrays[i];
      const auto values = value_array_names(drawn.packed.packing);
      if (std::ranges::find(values, array.name) == values.end()) {
        EXPECT_EQ(array.bytes, other->arrays[i].bytes) << drawn.packed.packing << " " << array.name;
      } else {
        EXPECT_EQ(array.bytes.size(), other->arrays[i].bytes.size()) << drawn.packed.packing << " " << array.name;
      }
    }
  }
}

TEST_P(PlacesTest, ManyNonzerosHaveNumbersOfSeveralDigits) {
  const CsrMatrix matrix = [&] {
    while (true) {
      CsrMatrix drawn = draw_any_matrix(random_, 600, 160, GetParam().name == "two_four");
      draw_values(drawn);
      if (drawn.nnz() > 1 << 14) return drawn;
    }
  }();
  // Some packings are of narrower weights, or of wider ones.
  Result<Places> places = internal_error("no packing drawn");
  for (int tries = 0; tries < 100 && !places.ok(); ++tries)
    places = places_of(draw().packed.packing, matrix, DataType::kFloat16);
  ASSERT_TRUE(places.ok()) << places.status().to_string();
  std::vector<std::uint32_t> sorted = places->first;
  for (const PlaceCopy& copy : places->copies) sorted.push_back(copy.place);
  std::ranges::sort(sorted);
  EXPECT_TRUE(std::ranges::adjacent_find(sorted) == sorted.end()) << "two nonzeros at one place";
}

}  // namespace
}  // namespace sparsmith::test
