#include "formats/hybrid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/packed_format.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

using testing::HasSubstr;

CsrMatrix matrix_of(std::int64_t cols, const std::vector<std::vector<std::uint32_t>>& rows) {
  CsrMatrix matrix;
  matrix.rows = std::ssize(rows);
  matrix.cols = cols;
  for (const auto& row : rows) {
    for (const std::uint32_t column : row) {
      matrix.column_indices.push_back(column);
      matrix.values.push_back(static_cast<float>(matrix.values.size() + 1));
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

// 16 x 16, with the first `nonzeros` elements of the block of 8 x 8 at the lower right, and one element of the upper
// left.
CsrMatrix one_block(int nonzeros) {
  std::vector<std::vector<std::uint32_t>> rows(16);
  rows[1].push_back(3);
  for (int i = 0; i < nonzeros; ++i) rows[8 + i / 8].push_back(8 + i % 8);
  return matrix_of(16, rows);
}

TEST(HybridTest, NamesSayTheParts) {
  const auto named = HybridPacking::named("bsr_lines64_rest_b32_csr_u16_a4_natural");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->structured, "bsr_lines64");
  EXPECT_EQ(named->block, 32);
  EXPECT_EQ(named->rest, "csr_u16_a4_natural");
  EXPECT_EQ(named->name(), "bsr_lines64_rest_b32_csr_u16_a4_natural");
  EXPECT_EQ(HybridPacking::named("two_four_rest_2of4_csr_u32_a1_natural")->block, 0);
  for (const char* other : {"bsr_lines64", "csr_u16_a4_natural", "bsr_lines64_rest_b32", "bsr_lines64_rest_b32_dense",
                            "bsr_lines64_rest_b4_csr_u16_a4_natural", "csr_u16_a4_natural_rest_b8_csr_u16_a4_natural",
                            "none_rest_b8_csr_u16_a4_natural"})
    EXPECT_FALSE(HybridPacking::named(other)) << other;
}

TEST(HybridTest, BlocksThatAreHalfFullAreTheStructuredPart) {
  for (const int nonzeros : {0, 1, 31, 32, 33, 64}) {
    const HybridParts parts = split_hybrid(one_block(nonzeros), 8);
    EXPECT_EQ(parts.structured.nnz(), nonzeros < 32 ? 0 : nonzeros) << nonzeros;
    EXPECT_EQ(parts.rest.nnz(), nonzeros < 32 ? nonzeros + 1 : 1) << nonzeros;
    EXPECT_TRUE(parts.structured.validate().ok() && parts.rest.validate().ok());
    EXPECT_EQ(parts.rest.values[0], 1.0F);
  }
}

TEST(HybridTest, TheFirstTwoOfAGroupAreTheStructuredPart) {
  const HybridParts parts = split_hybrid(matrix_of(9, {{0, 1, 2, 3, 5, 8}, {}, {1, 4, 5, 6, 7}}), 0);
  EXPECT_EQ(parts.structured.column_indices, (std::vector<std::uint32_t>{0, 1, 5, 8, 1, 4, 5}));
  EXPECT_EQ(parts.structured.row_offsets, (std::vector<std::int64_t>{0, 4, 4, 7}));
  EXPECT_EQ(parts.rest.column_indices, (std::vector<std::uint32_t>{2, 3, 6, 7}));
  EXPECT_EQ(parts.rest.values, (std::vector<float>{3, 4, 10, 11}));
}

// The same bytes from any weight that the parts hold: there is no other split of it.
TEST(HybridTest, PartsThatNoSplitGivesAreRefused) {
  const HybridParts parts = split_hybrid(one_block(64), 8);
  EXPECT_EQ(joined_hybrid(parts, 8)->column_indices, one_block(64).column_indices);
  EXPECT_EQ(joined_hybrid(parts, 8)->values, one_block(64).values);
  const auto refused = [](const HybridParts& of) { return joined_hybrid(of, 8).status().message(); };
  EXPECT_THAT(refused({parts.rest, parts.structured}), HasSubstr("structure b8"));
  EXPECT_THAT(refused({one_block(64), parts.rest}), HasSubstr("row 1: column 3"));
  EXPECT_THAT(refused({one_block(64), split_hybrid(one_block(0), 16).structured}), HasSubstr("structure b8"));
}

TEST(HybridTest, PackingWhatWasUnpackedGivesTheSameBytes) {
  DrawnRandom random;
  int hybrids = 0;
  for (const char* format : {"bsr", "bsr_strips", "two_four"}) {
    for (int round = 0; round < 60; ++round) {
      const auto drawn = draw_packing(random, format);
      ASSERT_TRUE(drawn.ok()) << drawn.status().to_string();
      if (!HybridPacking::named(without_transposed(drawn->packed.packing))) continue;
      ++hybrids;
      expect_unpacks_to(drawn->matrix, drawn->packed);
      const auto again = pack(drawn->packed.packing, unpack(drawn->packed).value(), DataType::kFloat16);
      ASSERT_TRUE(again.ok()) << again.status().to_string();
      expect_same_bytes(*again, drawn->packed);
      EXPECT_EQ(again->nnz, drawn->matrix.nnz());
    }
  }
  EXPECT_GT(hybrids, 20);
}

TEST(HybridTest, DamageIsRefusedOrHarmless) {
  DrawnRandom random;
  for (const char* name :
       {"bsr_lines32_rest_b16_csr_u16_a4_natural", "bsr_strips_r1_rest_b8_csr_u32_a1_sorted_transposed",
        "two_four_rest_2of4_csr_u16_a2_natural"}) {
    expect_damage_is_refused_or_harmless(random, 300, [&] {
      return pack(name, fill_blocks(random, draw_matrix(random, 40, 90, 0.05), 8, 4), DataType::kFloat16);
    });
  }
}

TEST(HybridTest, WeightsThatNoPartHoldsAreRefused) {
  const CsrMatrix wide = matrix_of(70000, {{69999}});
  EXPECT_THAT(pack("bsr_lines64_rest_b8_csr_u16_a4_natural", wide, DataType::kFloat16).status().message(),
              HasSubstr("16-bit columns"));
  EXPECT_THAT(
      pack("bsr_lines64_rest_b8_csr_u16_a4_natural_mxint8", one_block(3), DataType::kFloat16).status().message(),
      HasSubstr("no codes"));
  EXPECT_FALSE(pack("bsr_lines64_rest_b8_csr_u16_a4_natural", one_block(3), DataType::kFloat32).ok());
  EXPECT_FALSE(pack("bsr_lines64_rest_b8_csr_u16", one_block(3), DataType::kFloat16).ok());
  EXPECT_FALSE(pack("bsr_lines64_transposed_rest_b8_csr_u16_a4_natural", one_block(3), DataType::kFloat16).ok());
}

}  // namespace
}  // namespace sparsmith::test
