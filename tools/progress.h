// The progress of a tuning run, on stderr. A terminal shows one line that is overwritten: a
// bar, the time so far, and an estimate of the time left. Otherwise there is a line for
// each weight.
#pragma once

#include <chrono>
#include <string>

#include "search/tune.h"

namespace sparsmith::tools {

class ProgressDisplay {
 public:
  explicit ProgressDisplay(bool quiet);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void update(const TuneProgress& progress);
  void weight_is_done(const WeightResult& weight);

 private:
  void clear();

  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::size_t weights_ = 0;
  std::size_t finished_ = 0;
  std::size_t most_finished_ = 0;
  double share_ = 0;  // of the work; never falls
  std::chrono::steady_clock::time_point begin_{};
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace sparsmith::tools
