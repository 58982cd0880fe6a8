// Corrects the predictions of untimed candidates by the times of a search.
//
// The error of a prediction is modelled as a product: a factor of the family, a factor of each parameter value, and
// noise. The logarithms of the factors are normal around 0, so the likeliest factors are those of a ridge regression,
// and each has a standard deviation. A few times move the family's factor, more of them the parameters' factors.
// Families are independent.
#pragma once

#include <cstddef>
#include <vector>

#include "search/strategy/strategy.h"

namespace sparsmith {

// One thread at a time. A copy is on its own.
class PredictionCorrection {
 public:
  // A point without a prediction is taken to be infinitely slow.
  explicit PredictionCorrection(const std::vector<SpacePoint>& points);

  // REQUIRES: us > 0.
  void measured(std::size_t point, double us);
  // As if its likely time had been measured: no guess changes, and similar points become more certain.
  void suppose(std::size_t point);

  double likely_us(std::size_t point) const;
  // The time if the guess is too high by one standard deviation.
  double hoped_us(std::size_t point) const;

 private:
  struct Point {
    std::size_t family = 0;
    std::vector<std::size_t> effects;  // of its family's: the family's own, and those of its parameters' values
    double log_predicted = 0;
    double guess = 0;  // ln(measured / predicted)
    double variance = 0;
  };
  struct Family {
    std::size_t effects = 0;
    std::vector<double> covariance;  // [effects][effects]
    std::vector<std::size_t> points;
  };
  void add_family(const std::vector<SpacePoint>& points, std::vector<std::size_t> members);
  void learn(std::size_t point, double log_us);

  std::vector<Point> points_;
  std::vector<Family> families_;
};

}  // namespace sparsmith
