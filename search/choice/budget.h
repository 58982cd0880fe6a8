// The time of a run, shared out by the gain that each weight promises. Thread-safe.
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

  // `seconds`: from now on, on each of the devices; 0: no limit. `gains`: of each weight, in any unit; a weight without
  // a gain counts as the others' mean. `now`: called by several threads at once.
  Budget(double seconds, std::size_t devices, const std::vector<std::optional<double>>& gains, Now now = Clock::now);

  Clock::time_point now() const { return now_(); }
  // Whether the run's time is over.
  bool over() const { return end_ && now() >= *end_; }
  // The end of a search that begins now: its share, by gain, of the time that is left for unfinished weights.
  Clock::time_point end_of_search(std::size_t weight) const;
  // The weight is finished. Unused time goes to the others.
  void done(std::size_t weight);

  // All weights; if time is limited, the most promising first.
  std::vector<std::size_t> order() const;

 private:
  const std::size_t devices_;
  const Now now_;
  std::optional<Clock::time_point> end_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<double> gains_;
  double left_ = 0;  // gains of unfinished weights
};

// Microseconds that the cost model promises for one call against dense. A little even where it promises nothing, since
// the model may be wrong. `space`: of the problem.
double promised_gain_us(const Problem& problem, const SearchSpace& space);

}  // namespace sparsmith
