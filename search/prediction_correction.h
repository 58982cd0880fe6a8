// What the measurements of a search say about the predictions of what was not measured.
//
// A prediction's error is taken to be a product: a factor of the kernel family, one of each value of its parameters,
// and a rest that nothing tells ahead. Their logarithms are normally distributed around 0, so the likeliest factors
// after some measurements are those of a ridge regression, and each comes with its doubt. Few measurements move
// families, more of them parameters. Families learn nothing from each other.
#pragma once

#include <cstddef>
#include <vector>

#include "search/strategy.h"

namespace sparsmith {

// One thread at a time. A copy is on its own.
class PredictionCorrection {
 public:
  // Points without a prediction are no one's business: what they take is infinite.
  explicit PredictionCorrection(const std::vector<SpacePoint>& points);

  // REQUIRES: us > 0.
  void measured(std::size_t point, double us);
  // As if it had been measured to take what is likely: guesses stay, and what is like it is less in doubt.
  void suppose(std::size_t point);

  double likely_us(std::size_t point) const;
  // What it takes if the guess is too high by one standard deviation.
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
