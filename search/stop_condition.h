// When a search ends before its strategy is done.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace sparsmith {

struct SearchProgress {
  std::size_t tried = 0;         // points, the baseline not counted
  std::size_t since_better = 0;  // points since the last that was faster than all before
  double best_us = 0;            // 0: none yet
};

class StopCondition {
 public:
  virtual ~StopCondition() = default;
  virtual bool reached(const SearchProgress& progress) const = 0;
  // Whether a search that ends by it might have found better with more time: its choice is searched for again.
  virtual bool cuts_short() const { return false; }
};

// So many candidates were tried.
class CandidateLimit : public StopCondition {
 public:
  explicit CandidateLimit(std::size_t limit) : limit_(limit) {}
  bool reached(const SearchProgress& progress) const override { return progress.tried >= limit_; }

 private:
  std::size_t limit_;
};

// So many candidates in a row were no better than the best.
class NoGain : public StopCondition {
 public:
  explicit NoGain(std::size_t patience) : patience_(patience) {}
  bool reached(const SearchProgress& progress) const override { return progress.since_better >= patience_; }

 private:
  std::size_t patience_;
};

// The user, or the budget, wants an end.
class OutOfTime : public StopCondition {
 public:
  explicit OutOfTime(std::function<bool()> asked) : asked_(std::move(asked)) {}
  bool reached(const SearchProgress&) const override { return asked_ && asked_(); }
  bool cuts_short() const override { return true; }

 private:
  std::function<bool()> asked_;
};

}  // namespace sparsmith
