#include "formats/coding.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "formats/packed_format.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};
constexpr std::string_view kPacking = "csr_u16_a2_natural_mxint8";

// A row of these values, one beside the other.
CsrMatrix row_of(const std::vector<float>& values, DataType type) {
  CsrMatrix matrix;
  matrix.rows = 1;
  matrix.cols = std::ssize(values);
  matrix.data_type = type;
  matrix.values = values;
  for (std::uint32_t column = 0; column < values.size(); ++column) matrix.column_indices.push_back(column);
  matrix.row_offsets.push_back(matrix.nnz());
  return matrix;
}

CsrMatrix decoded(const CsrMatrix& matrix, DataType type) {
  const Result<CsrMatrix> back = unpack(pack(kPacking, matrix, type).value());
  EXPECT_TRUE(back.ok()) << back.status().to_string();
  return *back;
}

// Values of every magnitude that the type has.
CsrMatrix draw_weight(Random& random, DataType type) {
  CsrMatrix matrix = draw_any_matrix(random, 1 + random() % 20, 1 + random() % 150);
  matrix.data_type = type;
  for (float& value : matrix.values) {
    if (random() % 4 == 0) continue;  // as it is
    const int spread = type == DataType::kFloat16 ? 40 : 250;
    const int exponent = static_cast<int>(random() % static_cast<unsigned>(spread)) - (spread * 3 / 5);
    const float drawn = std::ldexp(1.0F + static_cast<float>(random() % 1024) / 1024, exponent);
    if (std::isfinite(rounded(drawn, type))) value = rounded(random() % 2 == 0 ? drawn : -drawn, type);
  }
  return matrix;
}

TEST(CodingTest, NamesEndPackings) {
  ASSERT_NE(coding_of(kPacking), nullptr);
  EXPECT_EQ(coding_of(kPacking)->name, "mxint8");
  EXPECT_EQ(without_coding(kPacking), "csr_u16_a2_natural");
  for (const char* plain : {"csr_u16_a2_natural", "csr_mxint8s", "dense", ""}) {
    EXPECT_EQ(coding_of(plain), nullptr) << plain;
    EXPECT_EQ(without_coding(plain), plain);
  }
}

TEST(CodingTest, ValuesAreCodesTimesAPowerOfTwo) {
  // The greatest value of the first 32 columns is 1.5: a code counts 64ths. That of the others is 5: it counts 16ths.
  std::vector<float> values(40, 0.25F);
  values[3] = -1.5F;
  values[7] = 0.01F;   // 0.64 of 64
  values[9] = 0.007F;  // 0.45 of 64
  values[39] = 5;
  values[35] = 0.09375F;  // 1.5 of 16: to the even one
  const PackedWeight packed = pack(kPacking, row_of(values, DataType::kFloat16), DataType::kFloat16).value();
  ASSERT_NE(packed.array("scales"), nullptr);
  EXPECT_THAT(packed.array("scales")->as<std::uint8_t>(), testing::ElementsAre(127, 129));
  const auto codes = packed.array("values")->as<std::int8_t>();
  EXPECT_EQ(codes[0], 16);
  EXPECT_EQ(codes[3], -96);
  EXPECT_EQ(codes[7], 1);
  EXPECT_EQ(codes[9], 0);
  EXPECT_EQ(codes[32], 4);
  EXPECT_EQ(codes[35], 2);
  EXPECT_EQ(codes[39], 80);
  const CsrMatrix back = unpack(packed).value();
  EXPECT_EQ(back.values[3], -1.5F);
  EXPECT_EQ(back.values[7], 1.0F / 64);
  EXPECT_EQ(back.values[9], 0);
  EXPECT_EQ(back.values[39], 5);
  EXPECT_EQ(back.data_type, DataType::kFloat16);
}

TEST(CodingTest, DecodedWeightsKeepTheirCodes) {
  DrawnRandom random;
  for (const DataType type : kTypes) {
    for (int round = 0; round < 60; ++round) {
      const CsrMatrix matrix = draw_weight(random, type);
      const PackedWeight packed = pack(kPacking, matrix, type).value();
      const CsrMatrix back = unpack(packed).value();
      ASSERT_TRUE(back.validate().ok()) << back.validate().to_string();
      expect_same_bytes(packed, pack(kPacking, back, type).value());
      expect_unpacks_to(back, packed);
      for (std::size_t i = 0; i < back.values.size(); ++i) ASSERT_EQ(back.values[i], rounded(back.values[i], type));
    }
  }
}

TEST(CodingTest, ErrorsAreAtMostA128thOfTheGreatestOfAGroup) {
  DrawnRandom random;
  for (const DataType type : kTypes) {
    for (int round = 0; round < 60; ++round) {
      const CsrMatrix matrix = draw_weight(random, type);
      const CsrMatrix back = decoded(matrix, type);
      ASSERT_EQ(back.column_indices, matrix.column_indices);
      for (std::int64_t row = 0; row < matrix.rows; ++row) {
        std::map<std::uint32_t, float> greatest;
        for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
          float& of_group = greatest[matrix.column_indices[i] / 32];
          of_group = std::max(of_group, std::abs(matrix.values[i]));
        }
        for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
          // Half a code, of which the greatest value has at least 64; less than one of 128 where the greatest code is
          // exceeded. Below the least scale, half of its code.
          const float bound = greatest[matrix.column_indices[i] / 32] / 128;
          const float least = type == DataType::kFloat16 ? 0x1p-25F : 0x1p-127F;
          EXPECT_LE(std::abs(back.values[i] - matrix.values[i]), std::max(bound, least)) << matrix.values[i];
        }
      }
    }
  }
}

TEST(CodingTest, TheGreatestOfATypeStaysFinite) {
  const std::pair<DataType, float> greatest[] = {
      {DataType::kFloat32, 0x1.fffffep127F}, {DataType::kFloat16, 65504}, {DataType::kBFloat16, 0x1.fep127F}};
  for (const auto& [type, value] : greatest) {
    const CsrMatrix back = decoded(row_of({value, -value}, type), type);
    EXPECT_TRUE(std::isfinite(back.values[0]));
    EXPECT_GT(back.values[0], 0.99F * value);
    EXPECT_EQ(back.values[1], -back.values[0]);
  }
}

TEST(CodingTest, ScalesThatNoWeightHasAreRefused) {
  for (const DataType type : kTypes) {
    const CsrMatrix matrix = row_of({1, 2, 0.5F}, type);
    const PackedWeight whole = pack(kPacking, matrix, type).value();
    const PackedClaim claim = claim_of(unpack(whole).value());
    ASSERT_TRUE(check_packed(whole, claim, PackedCheck::kContents).ok());
    for (int scale = 0; scale < 256; ++scale) {
      PackedWeight packed = whole;
      std::byte& first = packed.arrays.back().bytes[0];
      if (first == static_cast<std::byte>(scale)) continue;
      first = static_cast<std::byte>(scale);
      const Status status = check_packed(packed, claim, PackedCheck::kContents);
      // A scale that others have is that of another weight.
      const bool possible = type == DataType::kFloat16 ? scale >= 109 && scale <= 142 : scale >= 7 && scale <= 254;
      EXPECT_THAT(status.message(), testing::HasSubstr(possible ? "values of another weight" : "scale 0 is")) << scale;
    }
  }
}

TEST(CodingTest, ValuesThatAreNotFiniteAreRefused) {
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const auto packed = pack(kPacking, row_of({1, value}, DataType::kFloat32), DataType::kFloat32);
    EXPECT_THAT(packed.status().message(), testing::HasSubstr("not finite"));
  }
  PackedWeight forged = pack(kPacking, row_of({0x1.fcp127F, 1}, DataType::kFloat32), DataType::kFloat32).value();
  forged.arrays.back().bytes[0] = std::byte{255};  // 127 * 2^122
  EXPECT_THAT(unpack(forged).status().message(), testing::HasSubstr("where packers write 0"));
}

TEST(CodingTest, GroupsWithoutNonzerosHaveTheLeastScale) {
  CsrMatrix matrix = row_of(std::vector<float>(100, 1), DataType::kFloat16);
  matrix.column_indices = {0, 70};
  matrix.values = {3, 0};
  matrix.row_offsets = {0, 2};
  PackedWeight packed = pack(kPacking, matrix, DataType::kFloat16).value();
  EXPECT_THAT(packed.arrays.back().as<std::uint8_t>(), testing::ElementsAre(128, 109, 109, 109));
  for (const std::size_t group : {1, 2, 3}) {
    PackedWeight other = packed;
    other.arrays.back().bytes[group] = std::byte{110};
    EXPECT_THAT(unpack(other).status().message(),
                testing::HasSubstr(fmt::format("scale {} is 110, where packers write 109", group)));
  }
}

TEST(CodingTest, WrongArraysAreRefusedBeforeTheyAreRead) {
  const CsrMatrix matrix = row_of({1, 2, 0.5F}, DataType::kFloat32);
  const auto refused = [&](const auto& change) {
    PackedWeight packed = pack(kPacking, matrix, DataType::kFloat32).value();
    change(packed);
    return !check_packed(packed, claim_of(matrix), PackedCheck::kBounds).ok();
  };
  EXPECT_FALSE(refused([](PackedWeight&) {}));
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.arrays.pop_back(); }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.arrays.push_back(packed.arrays.back()); }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.arrays.back().bytes.emplace_back(); }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.arrays.back().type = DataType::kInt8; }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.value_type = DataType::kInt8; }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.packing = "csr_u16_a2_natural"; }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.packing = "csr_u16_a2_natural_mxint8_mxint8"; }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.packing = "dense_mxint8"; }));
}

TEST(CodingTest, PackingsThatHoldNoCodesSaySo) {
  const CsrMatrix matrix = row_of({1, 2}, DataType::kFloat16);
  EXPECT_THAT(pack("bitmap_t1_r4_stored_mxint8", matrix, DataType::kFloat16).status().message(),
              testing::HasSubstr("bitmap packings hold no codes"));
  EXPECT_THAT(pack("csr_u16_a1_natural_mxint8", matrix, DataType::kFloat16).status().message(),
              testing::HasSubstr("align to 2"));
  EXPECT_FALSE(pack("csr_u16_a2_natural_mxint8_transposed_transposed", matrix, DataType::kFloat16).ok());
  const PackedWeight packed = pack("csr_u16_a2_natural_mxint8_transposed", matrix, DataType::kFloat16).value();
  EXPECT_EQ(packed.array("scales")->size(), 2);  // a row of the transposed weight each
  expect_unpacks_to(matrix, packed);
}

TEST(CodingTest, MayBeDamaged) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(
      random, 2000, [&] { return pack(kPacking, draw_any_matrix(random, 20, 70), DataType::kFloat16); });
}

}  // namespace
}  // namespace sparsmith::test
