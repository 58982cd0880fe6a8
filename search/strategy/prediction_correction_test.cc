#include "search/strategy/prediction_correction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sparsmith {
namespace {

// Two families, "a" and "b", of three parameters with four values each; predictions ascend.
std::vector<SpacePoint> drawn_points() {
  std::vector<SpacePoint> points;
  for (const std::string family : {"a", "b"}) {
    for (int index = 0; index < 64; ++index) {
      SpacePoint& point = points.emplace_back();
      point.config = {family, {{"p", index % 4}, {"q", index / 4 % 4}, {"r", index / 16}}};
      point.predicted_us = 10 + 0.1 * index;
    }
  }
  return points;
}

// What the points take: family "b" takes 1.5 times what is predicted, q = 3 of it 1.4 times that; and 2 % of noise.
class Planted {
 public:
  double us(const SpacePoint& point) {
    const bool b = point.config.family == "b";
    return point.predicted_us * (b ? 1.5 : 1) * (b && point.config.at("q") == 3 ? 1.4 : 1) *
           std::exp(0.02 * normal_(random_));
  }

 private:
  std::mt19937_64 random_{5};
  std::normal_distribution<double> normal_;
};

double factor(const PredictionCorrection& correction, const std::vector<SpacePoint>& points, std::size_t point) {
  return correction.likely_us(point) / points[point].predicted_us;
}

TEST(PredictionCorrectionTest, WithoutMeasurementsPredictionsStand) {
  const std::vector<SpacePoint> points = drawn_points();
  const PredictionCorrection correction(points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(factor(correction, points, i), 1, 1e-12);
    EXPECT_LT(correction.hoped_us(i), correction.likely_us(i));
  }
}

TEST(PredictionCorrectionTest, AFewMeasurementsMoveAFamily) {
  const std::vector<SpacePoint> points = drawn_points();
  PredictionCorrection correction(points);
  Planted planted;
  for (const std::size_t point : {64, 64 + 21, 64 + 39})
    correction.measured(point, planted.us(points[point]));  // q < 3
  EXPECT_NEAR(factor(correction, points, 64 + 2), 1.5, 0.15) << "was not measured";
  EXPECT_NEAR(factor(correction, points, 2), 1, 1e-12) << "another family";
}

TEST(PredictionCorrectionTest, MoreOfThemFindTheParameter) {
  const std::vector<SpacePoint> points = drawn_points();
  PredictionCorrection correction(points);
  Planted planted;
  for (std::size_t point = 64; point < 128; point += 3) correction.measured(point, planted.us(points[point]));
  for (std::size_t point = 64; point < 128; ++point) {
    const double expected = points[point].config.at("q") == 3 ? 1.5 * 1.4 : 1.5;
    EXPECT_NEAR(factor(correction, points, point), expected, 0.06 * expected) << points[point].config.text();
    EXPECT_GT(correction.hoped_us(point), 0.85 * correction.likely_us(point)) << "there is little doubt left";
  }
}

TEST(PredictionCorrectionTest, TheOrderOfMeasurementsIsNothingToIt) {
  const std::vector<SpacePoint> points = drawn_points();
  PredictionCorrection forth(points);
  PredictionCorrection back(points);
  for (std::size_t i = 0; i < 128; i += 5) forth.measured(i, 12);
  for (std::size_t i = 0; i < 128; i += 5) back.measured(125 - i, 12);
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_NEAR(forth.likely_us(i), back.likely_us(i), 1e-9);
    EXPECT_NEAR(forth.hoped_us(i), back.hoped_us(i), 1e-9);
  }
}

TEST(PredictionCorrectionTest, WhatIsSupposedTakesDoubtAndNoMore) {
  const std::vector<SpacePoint> points = drawn_points();
  PredictionCorrection correction(points);
  correction.measured(3, 15);
  PredictionCorrection supposed = correction;
  supposed.suppose(7);
  for (const std::size_t point : {7, 6}) {  // 6 shares two values with it
    EXPECT_NEAR(supposed.likely_us(point), correction.likely_us(point), 1e-9);
    EXPECT_GT(supposed.hoped_us(point), 1.02 * correction.hoped_us(point));
  }
  EXPECT_EQ(supposed.hoped_us(100), correction.hoped_us(100)) << "another family";
}

TEST(PredictionCorrectionTest, ASpaceOfOne) {
  std::vector<SpacePoint> points(2);
  points[0].baseline = true;
  points[1].config = {"a", {{"p", 1}}};
  points[1].predicted_us = 8;
  PredictionCorrection correction(points);
  correction.measured(0, 4);  // no prediction, nothing to correct
  EXPECT_TRUE(std::isinf(correction.likely_us(0)));
  EXPECT_TRUE(std::isinf(correction.hoped_us(0)));
  EXPECT_NEAR(correction.likely_us(1), 8, 1e-12);
  for (int i = 0; i < 100; ++i) correction.measured(1, 16);
  EXPECT_NEAR(correction.likely_us(1), 16, 0.05);
  EXPECT_NEAR(correction.hoped_us(1), 16, 0.3);
  EXPECT_NO_FATAL_FAILURE(PredictionCorrection({}));
}

}  // namespace
}  // namespace sparsmith
