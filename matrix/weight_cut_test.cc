#include "matrix/weight_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

using Dimension = WeightCut::Dimension;
using Boundaries = std::vector<std::int64_t>;

std::int64_t largest(const Boundaries& loads, const Boundaries& boundaries) {
  std::int64_t most = 0;
  for (std::size_t i = 1; i < boundaries.size(); ++i)
    most = std::max(most, std::accumulate(loads.begin() + boundaries[i - 1], loads.begin() + boundaries[i], 0L));
  return most;
}

// The smallest largest sum over all ways to cut.
std::int64_t by_trying_all(const Boundaries& loads, std::size_t begin, int ranks) {
  if (ranks == 1) return std::accumulate(loads.begin() + static_cast<std::ptrdiff_t>(begin), loads.end(), 0L);
  std::int64_t best = INT64_MAX;
  std::int64_t sum = 0;
  for (std::size_t end = begin + 1; end + static_cast<std::size_t>(ranks) - 1 <= loads.size(); ++end) {
    sum += loads[end - 1];
    best = std::min(best, std::max(sum, by_trying_all(loads, end, ranks - 1)));
  }
  return best;
}

TEST(WeightCutTest, TheLargestPartIsAsSmallAsItCanBe) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 draw(seed);
  for (int trial = 0; trial < 500; ++trial) {
    const int ranks = static_cast<int>(draw() % 4) + 2;
    Boundaries loads(ranks + draw() % 8);
    const unsigned most = trial % 3 == 0 ? 2 : 1000;  // with zeros, and without an equal cut
    for (std::int64_t& load : loads) load = draw() % most;
    const Boundaries boundaries = exact_boundaries(loads, ranks);
    const WeightCut cut{Dimension::kRows, boundaries};
    ASSERT_EQ(cut.ranks(), ranks);
    ASSERT_EQ(cut.units(), std::ssize(loads));
    ASSERT_TRUE(cut.validate().ok());
    ASSERT_EQ(largest(loads, boundaries), by_trying_all(loads, 0, ranks));
    const Boundaries balanced = balanced_boundaries(loads, ranks);
    ASSERT_TRUE((WeightCut{Dimension::kRows, balanced}.validate().ok()));
    ASSERT_LE(static_cast<double>(largest(loads, balanced)), 1.01 * static_cast<double>(largest(loads, boundaries)));
  }
}

TEST(WeightCutTest, EqualPartsAreTakenWhereTheyAreNearlyAsGood) {
  EXPECT_EQ(balanced_boundaries(Boundaries{1000, 1002, 1001, 1003}, 2), (Boundaries{0, 2, 4}));
  EXPECT_EQ(balanced_boundaries(Boundaries{1000, 20, 20, 20}, 2), (Boundaries{0, 1, 4}));
  EXPECT_EQ(balanced_boundaries(Boundaries{5, 5, 5}, 2), (Boundaries{0, 2, 3}));
}

TEST(WeightCutTest, PartsPutTogetherAreTheWeight) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 draw(seed);
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t units = 3 + draw() % 5;
    SynthesisSpec spec;
    spec.rows = units * (1 + draw() % 9);
    spec.cols = units * (1 + draw() % 9);
    spec.sparsity = 0.7;
    spec.seed = draw();
    const CsrMatrix matrix = synthesize(spec).value();
    for (const Dimension dimension : {Dimension::kRows, Dimension::kColumns}) {
      Boundaries loads(units);
      add_loads(matrix, dimension, loads);
      const WeightCut cut{dimension, exact_boundaries(loads, 3)};
      CsrMatrix together;
      for (int rank = 0; rank < 3; ++rank) {
        const auto part = part_of(matrix, cut, rank);
        ASSERT_TRUE(part.ok() && part->validate().ok());
        EXPECT_EQ(part->nnz(),
                  std::accumulate(loads.begin() + cut.boundaries[rank], loads.begin() + cut.boundaries[rank + 1], 0L));
        const CsrMatrix rows = dimension == Dimension::kRows ? *part : transposed(*part);
        if (rank == 0)
          together = rows;
        else
          ASSERT_TRUE(append_rows(together, rows).ok());
      }
      if (dimension == Dimension::kColumns) together = transposed(together);
      EXPECT_EQ(together.pattern_hash(), matrix.pattern_hash());
      EXPECT_EQ(together.values, matrix.values);
    }
  }
}

TEST(WeightCutTest, RefusesCutsThatAreNone) {
  for (const Boundaries& boundaries : {Boundaries{}, {0}, {0, 4}, {1, 2, 3}, {0, 2, 2}, {0, 3, 2}, {0, 1, 1L << 30}})
    EXPECT_EQ((WeightCut{Dimension::kRows, boundaries}.validate().code()), StatusCode::kInvalidInput);
  CsrMatrix matrix{{5, 6}};
  matrix.row_offsets.assign(6, 0);
  EXPECT_FALSE(part_of(matrix, {Dimension::kRows, {0, 1, 2}}, 0).ok());
  EXPECT_EQ(part_of(matrix, {Dimension::kColumns, {0, 1, 2}}, 1)->cols, 3);
}

}  // namespace
}  // namespace sparsmith
