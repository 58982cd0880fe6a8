#include "history/change_points.h"

#include <gtest/gtest.h>

#include "tests/support/drawn_times.h"

namespace sparsmith {
namespace {

// Commits of one history: `levels` of `each` values.
std::vector<double> draw(const std::vector<double>& levels, int each, double cv, std::uint64_t seed) {
  DrawnNoise noise(Noise::kIndependent, cv, seed);
  std::vector<double> values;
  for (const double level : levels) {
    for (int i = 0; i < each; ++i) values.push_back(noise.sample(level));
  }
  return values;
}

TEST(ChangePoints, FindsEveryStep) {
  int exact = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto points = find_change_points(draw({100, 105, 95, 97}, 25, 0.005, seed), {});
    ASSERT_EQ(points.size(), 3U) << "seed " << seed;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(static_cast<double>(points[i].index), 25.0 * static_cast<double>(i + 1), 2) << "seed " << seed;
      exact += points[i].index == 25 * (i + 1) ? 1 : 0;
      EXPECT_LE(points[i].p, 0.01);
    }
    EXPECT_NEAR(points[0].change(), 0.05, 0.01) << "seed " << seed;
    EXPECT_NEAR(points[1].change(), 95.0 / 105 - 1, 0.01) << "seed " << seed;
  }
  EXPECT_GE(exact, 55);  // of 60
}

TEST(ChangePoints, SeldomFindsWhatIsNotThere) {
  int alarms = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    alarms += find_change_points(draw({100}, 40, 0.01, seed), {}).empty() ? 0 : 1;
  EXPECT_LE(alarms, 4);  // significance 0.01, less those smaller than 1 %
}

TEST(ChangePoints, DropsWhatIsTooSmall) {
  const std::vector<double> values = draw({100, 100.6}, 40, 0.001, 5);
  EXPECT_TRUE(find_change_points(values, {}).empty());
  const auto points = find_change_points(values, {.smallest_change = 0.002});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_NEAR(static_cast<double>(points[0].index), 40, 1);
}

TEST(ChangePoints, AnOutlierIsNoChange) {
  std::vector<double> values = draw({100}, 30, 0.003, 9);
  values[15] = 150;
  EXPECT_TRUE(find_change_points(values, {}).empty());
}

TEST(ChangePoints, ShortAndConstantSeriesHaveNone) {
  EXPECT_TRUE(find_change_points({}, {}).empty());
  EXPECT_TRUE(find_change_points(std::vector<double>{1, 2, 3, 4, 5}, {}).empty());
  EXPECT_TRUE(find_change_points(std::vector<double>(50, 3.5), {}).empty());
}

TEST(ChangePoints, LongSeriesAreSearchedAtTheirEnd) {
  std::vector<double> values = draw({100, 110}, 600, 0.003, 4);
  const auto points = find_change_points(values, {});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_NEAR(static_cast<double>(points[0].index), 600, 1);
}

}  // namespace
}  // namespace sparsmith
