// Measures the time of parts of a run.
#pragma once

#include <chrono>

namespace sparsmith {

// Adds the seconds of its lifetime to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

// Returns the result of `work`. Adds its time to `seconds`.
template <class Work>
auto timed(double& seconds, const Work& work) {
  const Stopwatch stopwatch(seconds);
  return work();
}

}  // namespace sparsmith
