#include "search/choice/budget.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sparsmith {

Budget::Budget(double seconds, std::size_t devices, const std::vector<std::optional<double>>& gains, Now now)
    : devices_(devices), now_(std::move(now)) {
  if (seconds > 0)
    end_ = this->now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  double sum = 0;
  double known = 0;
  for (const std::optional<double>& gain : gains) {
    if (!gain) continue;
    sum += *gain;
    ++known;
  }
  const double mean = sum > 0 ? sum / known : 1;
  for (const std::optional<double>& gain : gains) gains_.push_back(sum > 0 ? gain.value_or(mean) : mean);
  left_ = std::accumulate(gains_.begin(), gains_.end(), 0.0);
}

Budget::Clock::time_point Budget::end_of_search(std::size_t weight) const {
  if (!end_) return Clock::time_point::max();
  const auto now = this->now();
  if (now >= *end_) return *end_;
  const std::lock_guard lock(mutex_);
  const double part = std::clamp(gains_[weight] / std::max(left_, gains_[weight]), 0.0, 1.0);
  const std::chrono::duration<double> seconds = *end_ - now;
  return std::min(*end_, now + std::chrono::duration_cast<Clock::duration>(seconds * part * devices_));
}

void Budget::done(std::size_t weight) {
  const std::lock_guard lock(mutex_);
  left_ -= std::exchange(gains_[weight], 0.0);
}

std::vector<std::size_t> Budget::order() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t> all(gains_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (end_) std::ranges::stable_sort(all, std::greater<>(), [&](std::size_t i) { return gains_[i]; });
  return all;
}

double promised_gain_us(const Problem& problem, const SearchSpace& space) {
  constexpr double kDoubt = 0.02;  // of dense
  const double dense_us = baseline_us(problem);
  const double best_us = space.configs.empty() ? dense_us : space.configs.front().predicted_us;
  return std::max(dense_us - best_us, kDoubt * dense_us);
}

}  // namespace sparsmith
