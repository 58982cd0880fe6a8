#include "tools/report/density_map.h"

#include <gtest/gtest.h>

namespace sparsmith::tools {
namespace {

CsrMatrix corner_matrix() {  // 5 x 3 with nonzeros at (0, 0), (4, 2) and (4, 1)
  CsrMatrix matrix;
  matrix.rows = 5;
  matrix.cols = 3;
  matrix.row_offsets = {0, 1, 1, 1, 1, 3};
  matrix.column_indices = {0, 1, 2};
  matrix.values = {1, 2, 3};
  return matrix;
}

TEST(DensityMapTest, SmallWeightsHaveACellForEachElement) {
  const DensityMap map = density_map(corner_matrix(), 8);
  EXPECT_EQ(map.rows, 5);
  EXPECT_EQ(map.cols, 3);
  EXPECT_EQ(map.density, (std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
}

TEST(DensityMapTest, CellsOfUnequalSizeHoldShares) {
  // Rows 0-1 and 2-4; columns 0 and 1-2.
  const DensityMap map = density_map(corner_matrix(), 2);
  EXPECT_EQ(map.density, (std::vector<double>{0.5, 0, 0, 2.0 / 6}));
}

TEST(DensityMapTest, EmptyWeightsHaveNoCells) { EXPECT_TRUE(density_map(CsrMatrix(), 8).density.empty()); }

}  // namespace
}  // namespace sparsmith::tools
