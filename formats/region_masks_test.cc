#include "formats/region_masks.h"

#include <gtest/gtest.h>

#include "formats/region_masks_layout.h"
#include "matrix/synthesis.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

using region_masks::kNoColumns;
using List = std::vector<std::uint32_t>;

List list(const PackedWeight& packed, const char* name) {
  const auto numbers = packed.array(name)->as<std::uint32_t>();
  return {numbers.begin(), numbers.end()};
}

// A weight with one element in each of these bands of 32 rows, at that column.
CsrMatrix weight_of(std::int64_t rows, std::int64_t cols, const std::map<std::int64_t, List>& columns_of_bands) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.data_type = DataType::kFloat16;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row % 32 == 5 && columns_of_bands.contains(row / 32)) {
      const List& columns = columns_of_bands.at(row / 32);
      matrix.column_indices.insert(matrix.column_indices.end(), columns.begin(), columns.end());
    }
    matrix.row_offsets.push_back(std::ssize(matrix.column_indices));
  }
  matrix.values.assign(matrix.column_indices.size(), 1.0F);
  return matrix;
}

CsrMatrix draw_blocks_of_32(double sparsity, std::int64_t rows, std::int64_t cols) {
  SynthesisSpec spec;
  spec.rows = rows;
  spec.cols = cols;
  spec.sparsity = sparsity;
  spec.pattern = parse_synthesis_pattern("block:32").value();
  return synthesize(spec).value();
}

constexpr std::uint32_t tile(std::uint32_t first, std::uint32_t second, std::uint32_t columns) {
  return first | second << 8 | columns << 16;
}

// Columns 0 to 31 have bands 1, 4 and 9, columns 32 to 63 band 0; columns 384 and on bands 4 and 5; panel 1 nothing.
TEST(RegionMasksTest, BandsThatHoldSomethingStandInPairs) {
  const auto packed = pack_region_masks(
      weight_of(1024, 400, {{0, {40}}, {1, {7}}, {4, {7, 8, 390}}, {5, {390}}, {9, {31}}}), {8}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(packed->packing, "region_masks_t8");
  EXPECT_EQ(packed->facts, (Facts{{"regions", 4}, {"tiles", 4}, {"nonzeros", 7}}));
  EXPECT_EQ(list(*packed, "region_panels"), (List{0, 0, 1, 1}));
  EXPECT_EQ(list(*packed, "region_tiles"), (List{0, 3, 4, 4, 4}));
  List columns(16, kNoColumns);
  columns[0] = 0;
  columns[4] = 6;
  EXPECT_EQ(list(*packed, "columns"), columns);
  EXPECT_EQ(list(*packed, "tiles"), (List{tile(1, 4, 0), tile(0, 9, 0), tile(0, 1, 1), tile(4, 5, 0)}));
  const List masks = list(*packed, "masks");
  const List firsts = list(*packed, "firsts");
  EXPECT_EQ(masks[5], 1U << 7);                  // band 1
  EXPECT_EQ(masks[32 + 5], 1U << 7 | 1U << 8);   // band 4
  EXPECT_EQ(firsts[32 + 5], 2U);                 // behind 40 and 7
  EXPECT_EQ(masks[64 + 5], 0U);                  // band 0 holds nothing there
  EXPECT_EQ(masks[64 + 32 + 5], 1U << 31);       // band 9
  EXPECT_EQ(masks[2 * 64 + 5], 1U << 8);         // band 0, columns 32 and on
  EXPECT_EQ(masks[3 * 64 + 5], 1U << 390 % 32);  // band 4
  EXPECT_EQ(firsts[3 * 64 + 32 + 5], 5U);        // band 5
}

TEST(RegionMasksTest, UnpackingGivesThePatternBack) {
  DrawnRandom random;
  for (int round = 0; round < 60; ++round) {
    CsrMatrix matrix =
        draw_matrix(random, static_cast<std::int64_t>(random() % 1200), static_cast<std::int64_t>(1 + random() % 900),
                    static_cast<double>(random() % 3) / 2);
    const RegionMasksPacking packing = draw_region_masks_packing(random);
    const auto packed = pack_region_masks(matrix, packing, DataType::kBFloat16);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    std::ranges::fill(matrix.values, 1.0F);
    expect_unpacks_to(matrix, *packed);
  }
}

// What a kernel makes of the arrays: each element of the pattern once, at its place in CSR; regions within their room,
// and two by two as long as one another, about.
TEST(RegionMasksTest, EveryElementHasItsPlace) {
  DrawnRandom random;
  for (int round = 0; round < 60; ++round) {
    const CsrMatrix matrix =
        round % 2 == 0
            ? draw_blocks_of_32(0.25 + 0.5 * static_cast<double>(random() % 2), 1024, 640)
            : draw_matrix(random, static_cast<std::int64_t>(1 + random() % 1100),
                          static_cast<std::int64_t>(1 + random() % 700), static_cast<double>(random() % 40) / 1000);
    const RegionMasksPacking packing = draw_region_masks_packing(random);
    const auto packed = pack_region_masks(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    const auto panels = list(*packed, "region_panels");
    const auto first_tiles = list(*packed, "region_tiles");
    const auto columns = list(*packed, "columns");
    const auto tiles = list(*packed, "tiles");
    const auto masks = list(*packed, "masks");
    const auto firsts = list(*packed, "firsts");
    EXPECT_EQ(panels.size() % 2, 0U);
    std::vector<int> seen(static_cast<std::size_t>(matrix.nnz()));
    for (std::size_t region = 0; region < panels.size(); ++region) {
      EXPECT_EQ(panels[region], panels[region / 2 * 2]);
      EXPECT_LE(first_tiles[region + 1] - first_tiles[region], static_cast<std::uint32_t>(packing.tiles));
      for (std::uint32_t t = first_tiles[region]; t < first_tiles[region + 1]; ++t) {
        const std::int64_t half = tiles[t] >> 16;
        ASSERT_LT(half, 8);
        ASSERT_NE(columns[region * 4 + half / 2], kNoColumns);
        EXPECT_LT(tiles[t] & 0xFF, tiles[t] >> 8 & 0xFF);
        for (std::int64_t r = 0; r < 64; ++r) {
          const std::int64_t row = panels[region] * 512 + (tiles[t] >> (r / 32 * 8) & 0xFF) * 32 + r % 32;
          std::int64_t place = firsts[t * 64 + r];
          for (std::int64_t c = 0; c < 32; ++c) {
            if ((masks[t * 64 + r] >> c & 1U) == 0) continue;
            ASSERT_LT(row, matrix.rows);
            ASSERT_LT(place, matrix.row_offsets[row + 1]);
            ASSERT_GE(place, matrix.row_offsets[row]);
            EXPECT_EQ(matrix.column_indices[place], columns[region * 4 + half / 2] * 64 + half % 2 * 32 + c);
            ++seen[place++];
          }
        }
      }
    }
    EXPECT_EQ(std::ranges::count(seen, 1), matrix.nnz()) << packing.name();
  }
}

// A weight in blocks of 32 at 75 % zeros: 4 columns of 64 fill a region, and all regions are about equal.
TEST(RegionMasksTest, RegionsAreEven) {
  const auto packed = pack_region_masks(draw_blocks_of_32(0.75, 1024, 4096), {20}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(packed->facts.at("regions"), 32);
  const auto first_tiles = list(*packed, "region_tiles");
  for (std::size_t region = 0; region < 32; ++region) {
    EXPECT_GE(first_tiles[region + 1] - first_tiles[region], 16U);
    EXPECT_LE(first_tiles[region + 1] - first_tiles[region], 20U);
  }
}

TEST(RegionMasksTest, RefusesWhatItCannotHold) {
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 20, 70, 0.5);
  EXPECT_EQ(pack_region_masks(matrix, {}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  for (const int tiles : {6, 9, 24})
    EXPECT_EQ(pack_region_masks(matrix, {tiles}, DataType::kFloat16).status().code(), StatusCode::kInvalidInput);
}

TEST(RegionMasksTest, DamagedPackingsAreRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 2000, [&] {
    return pack_region_masks(draw_matrix(random, 600, 300, 0.01), draw_region_masks_packing(random),
                             DataType::kFloat16);
  });
}

}  // namespace
}  // namespace sparsmith::test
