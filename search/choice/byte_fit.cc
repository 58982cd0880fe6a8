#include "search/choice/byte_fit.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace sparsmith {
namespace {

struct Step {
  std::size_t weight = 0;
  std::size_t option = 0;
  double worth = 0;  // of a step down: time a byte; of a step up: time
};

class Fit {
 public:
  Fit(const std::vector<std::vector<ByteOption>>& weights, std::int64_t most_bytes)
      : weights_(weights), most_bytes_(most_bytes) {
    for (const std::vector<ByteOption>& options : weights) {
      const auto fastest = std::ranges::min_element(
          options, {}, [](const ByteOption& option) { return std::pair(option.us, option.bytes); });
      chosen_.push_back(static_cast<std::size_t>(fastest - options.begin()));
      bytes_ += fastest->bytes;
    }
  }

  std::vector<std::size_t> run() {
    while (bytes_ > most_bytes_ && take(cheapest_step_down())) {
    }
    if (bytes_ > most_bytes_) return chosen_;
    while (take(best_step_up()) || exchange()) {
    }
    return chosen_;
  }

 private:
  const ByteOption& at(std::size_t weight) const { return weights_[weight][chosen_[weight]]; }

  bool take(const Step& step) {
    if (step.weight == weights_.size()) return false;
    bytes_ += weights_[step.weight][step.option].bytes - at(step.weight).bytes;
    chosen_[step.weight] = step.option;
    return true;
  }

  Step cheapest_step_down() const {
    Step best{weights_.size(), 0, std::numeric_limits<double>::infinity()};
    for (std::size_t weight = 0; weight < weights_.size(); ++weight) {
      for (std::size_t i = 0; i < weights_[weight].size(); ++i) {
        const ByteOption& option = weights_[weight][i];
        const std::int64_t saved = at(weight).bytes - option.bytes;
        if (saved <= 0) continue;
        const double cost = (option.us - at(weight).us) / static_cast<double>(saved);
        if (cost < best.worth) best = {weight, i, cost};
      }
    }
    return best;
  }

  Step best_step_up() const {
    Step best{weights_.size(), 0, 0};
    for (std::size_t weight = 0; weight < weights_.size(); ++weight) {
      for (std::size_t i = 0; i < weights_[weight].size(); ++i) {
        const ByteOption& option = weights_[weight][i];
        if (bytes_ + option.bytes - at(weight).bytes > most_bytes_) continue;
        const double gain = at(weight).us - option.us;
        if (gain > best.worth) best = {weight, i, gain};
      }
    }
    return best;
  }

  // A step up for one weight that a step down of another makes room for, where that gains time.
  bool exchange() {
    for (std::size_t weight = 0; weight < weights_.size(); ++weight) {
      for (std::size_t i = 0; i < weights_[weight].size(); ++i) {
        const double gain = at(weight).us - weights_[weight][i].us;
        if (gain <= 0) continue;
        const std::int64_t over = bytes_ + weights_[weight][i].bytes - at(weight).bytes - most_bytes_;
        const Step down = room_for(over, weight);
        if (down.worth >= gain) continue;
        take(down);
        take({weight, i, 0});
        return true;
      }
    }
    return false;
  }

  // The step down of another weight that frees so many bytes for the least time; its worth is that time.
  Step room_for(std::int64_t bytes, std::size_t but) const {
    Step best{weights_.size(), 0, std::numeric_limits<double>::infinity()};
    for (std::size_t weight = 0; weight < weights_.size(); ++weight) {
      if (weight == but) continue;
      for (std::size_t i = 0; i < weights_[weight].size(); ++i) {
        const double cost = weights_[weight][i].us - at(weight).us;
        if (at(weight).bytes - weights_[weight][i].bytes >= bytes && cost < best.worth) best = {weight, i, cost};
      }
    }
    return best;
  }

  const std::vector<std::vector<ByteOption>>& weights_;
  const std::int64_t most_bytes_;
  std::vector<std::size_t> chosen_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::vector<std::size_t> best_tradeoffs(std::span<const ByteOption> options) {
  std::vector<std::size_t> order(options.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::tuple(options[i].bytes, options[i].us); });
  std::vector<std::size_t> best;
  for (const std::size_t i : order) {
    if (best.empty() || options[i].us < options[best.back()].us) best.push_back(i);
  }
  return best;
}

std::vector<std::size_t> fit_bytes(const std::vector<std::vector<ByteOption>>& weights, std::int64_t most_bytes) {
  return Fit(weights, most_bytes).run();
}

}  // namespace sparsmith
