// What a run may take, shared out by what each search may gain. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "generator/search_space.h"

namespace sparsmith {

class Budget {
 public:
  using Clock = std::chrono::steady_clock;

  using Now = std::function<Clock::time_point()>;

  // `seconds` from now on, on so many devices; 0: without end. `gains`: what each weight promises, in any unit; a
  // weight of which nothing is known counts as the others' mean. `now`: asked by several threads at once.
  Budget(double seconds, std::size_t devices, const std::vector<std::optional<double>>& gains, Now now = Clock::now);

  Clock::time_point now() const { return now_(); }
  // Whether the run's time is over.
  bool over() const { return end_ && now() >= *end_; }
  bool limited() const { return end_.has_value(); }
  // Until when a search that begins now may last: its part, by gain, of what is left for those that are not done.
  Clock::time_point end_of_search(std::size_t weight) const;
  // A weight that needed less leaves its time to the others.
  void done(std::size_t weight);

  // The weights, the most promising first where time is limited.
  std::vector<std::size_t> order() const;

 private:
  const std::size_t devices_;
  const Now now_;
  std::optional<Clock::time_point> end_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<double> gains_;
  double left_ = 0;  // gains of what is not done
};

// Microseconds that the cost model promises for one call against a dense product; a little also where it promises
// nothing, since it may be wrong. `space`: of the problem.
double promised_gain_us(const Problem& problem, const SearchSpace& space);

}  // namespace sparsmith
