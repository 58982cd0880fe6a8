// How far a tuning run is: one line that is written over on a terminal, a line for each weight otherwise. On stderr.
#pragma once

#include <chrono>
#include <string>

#include "search/tuner.h"

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
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace sparsmith::tools
