// A drawn search space for tests of strategies: no device measured it. Times are products of one factor for each
// parameter's value and of a few pairs of them, as kernels' roughly are; predictions know them but for an error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "search/record/recorded_space.h"

namespace sparsmith {

struct SyntheticSpace {
  std::uint64_t seed = 1;
  int candidates = 600;
  double prediction_error = 0.25;  // standard deviation of its logarithm
  double noise = 0.01;             // of a sample, likewise
  double failures = 0.05;          // share of candidates that do not pass

  RecordedSpace draw() const {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    RecordedSpace space;
    space.weight = "synthetic" + std::to_string(seed);
    space.pattern_hash = std::to_string(seed);
    space.rows = space.cols = 1024;
    space.operator_name = "fp16";
    space.tokens = 8;
    space.device_name = "none: drawn, not measured";
    space.vendors.push_back({"cublas", true, "drawn", {30, 30, 30}, 1});
    constexpr int kFamilies = 4;
    constexpr int kParameters = 5;
    constexpr int kValues = 4;
    for (int family = 0; family < kFamilies; ++family) {
      const double base = 10 * std::exp(0.3 * normal(random));
      double factor[kParameters][kValues];
      double pair[kParameters][kValues][kValues];
      for (auto& values : factor)
        for (double& value : values) value = std::exp(0.25 * normal(random));
      for (auto& first : pair)
        for (auto& second : first)
          for (double& value : second) value = std::exp(0.1 * normal(random));
      for (int index = 0; index < std::pow(kValues, kParameters); ++index) {
        RecordedCandidate candidate;
        candidate.config.family = "family" + std::to_string(family);
        double us = base;
        int rest = index;
        int previous = 0;
        for (int parameter = 0; parameter < kParameters; ++parameter, rest /= kValues) {
          const int value = rest % kValues;
          candidate.config.values["p" + std::to_string(parameter)] = value;
          us *= factor[parameter][value] * pair[parameter][previous][value];
          previous = value;
        }
        candidate.packing = candidate.config.family + "_" + std::to_string(index % kValues);
        candidate.predicted_us = us * std::exp(prediction_error * normal(random));
        candidate.closure_hash = "0";
        candidate.status = MeasurementStatus::kOk;
        if (static_cast<double>(random() % 10000) < failures * 10000) {
          candidate.status = MeasurementStatus::kWrong;
          candidate.reason = "drawn to fail";
        } else {
          for (int i = 0; i < 7; ++i)
            candidate.samples_us.push_back(static_cast<float>(us * std::exp(noise * normal(random))));
        }
        space.candidates.push_back(std::move(candidate));
      }
    }
    space.considered = static_cast<std::int64_t>(space.candidates.size());
    for (std::size_t i = space.candidates.size(); i > 1; --i)
      std::swap(space.candidates[i - 1], space.candidates[random() % i]);
    space.candidates.resize(std::min<std::size_t>(space.candidates.size(), static_cast<std::size_t>(candidates)));
    return space;
  }
};

}  // namespace sparsmith
