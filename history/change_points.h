// Finds the points where a series of times changes permanently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sparsmith {

struct ChangePointRules {
  double significance = 0.01;     // of the permutation test
  int permutations = 499;         // of one test
  std::size_t shortest = 3;       // values of a segment
  double smallest_change = 0.01;  // between the medians of neighbours, as a share
  std::uint64_t seed = 1;         // of the permutations; equal input gives equal output
};

struct ChangePoint {
  std::size_t index = 0;  // the first value of the new segment
  double before = 0;      // medians of the segments on either side
  double after = 0;
  double p = 1;  // of the permutation test
  double change() const { return after / before - 1; }
};

// Change points of `values`, in order: E-divisive with means of distances (Matteson and James, A Nonparametric Approach
// for Multiple Change Point Analysis of Multivariate Data, 2014). Daly et al. use it over commits (The Use of Change
// Point Detection to Identify Software Performance Regressions in a Continuous Integration System, 2020). The series is
// cut in two at the greatest energy distance between both sides. This repeats while a permutation test inside the
// segments finds the cut significant. At the end, cuts between medians closer than the smallest change are dropped.
// Works on logarithms, so changes are shares. REQUIRES: values > 0. Takes O(n^2) memory, and O(n^2) time for each test.
// In a series longer than 1,000 values only the last 1,000 are searched.
std::vector<ChangePoint> find_change_points(std::span<const double> values, const ChangePointRules& rules);

}  // namespace sparsmith
