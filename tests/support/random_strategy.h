// Every point in drawn order: what a search must beat to be worth its code.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "search/strategy/strategy.h"

namespace sparsmith {

class RandomStrategy : public Strategy {
 public:
  RandomStrategy(const SearchPoints& points, std::uint64_t seed) : order_(points.points.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::mt19937_64 random(seed);
    // Not std::shuffle, whose order differs between libraries.
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  }

  std::vector<TrialRequest> propose() override {
    std::vector<TrialRequest> batch;
    for (; next_ < order_.size() && batch.size() < 64; ++next_) batch.push_back({order_[next_], 3});
    return batch;
  }
  void report(const TrialOutcome&) override {}

 private:
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
};

inline std::unique_ptr<Strategy> random_strategy(const SearchPoints& points, std::uint64_t seed) {
  return std::make_unique<RandomStrategy>(points, seed);
}

}  // namespace sparsmith
