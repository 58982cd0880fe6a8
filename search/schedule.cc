#include "search/schedule.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sparsmith {
namespace {

// Weights that are put off and stay in memory; others are read again.
constexpr std::ptrdiff_t kKept = 4;

}  // namespace

Schedule::Schedule(const std::vector<std::size_t>& order, std::size_t lookahead)
    : lookahead_(lookahead), left_(order.size()) {
  for (const std::size_t weight : order) waiting_.push_back({weight, nullptr});
}

void Schedule::return_put_off() {
  ++searches_;
  waiting_.insert(waiting_.begin(), std::make_move_iterator(put_off_.begin()), std::make_move_iterator(put_off_.end()));
  put_off_.clear();
  changed_.notify_all();
}

std::optional<Schedule::Turn> Schedule::next_to_prepare() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over() || (!waiting_.empty() && ready_.size() + preparing_ < lookahead_); });
  if (over()) return std::nullopt;
  Turn turn = std::move(waiting_.front());
  waiting_.pop_front();
  ++preparing_;
  turn.searches = searches_;
  return turn;
}

void Schedule::put_off(Turn turn) {
  const std::lock_guard lock(mutex_);
  --preparing_;
  if (std::ranges::count_if(put_off_, [](const Turn& each) { return each.search != nullptr; }) >= kKept)
    turn.search.reset();
  // What it waits for may have ended in the meantime.
  if (turn.searches != searches_) {
    waiting_.push_front(std::move(turn));
  } else {
    put_off_.push_back(std::move(turn));
  }
  changed_.notify_all();
}

void Schedule::ready(Turn turn) {
  const std::lock_guard lock(mutex_);
  --preparing_;
  ready_.push_back(std::move(turn));
  changed_.notify_all();
}

std::optional<Schedule::Turn> Schedule::next_to_search() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over() || !ready_.empty(); });
  if (over()) return std::nullopt;
  Turn turn = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return turn;
}

void Schedule::needs_no_search() {
  const std::lock_guard lock(mutex_);
  --preparing_;
  --left_;
  return_put_off();
}

void Schedule::searched() {
  const std::lock_guard lock(mutex_);
  --left_;
  return_put_off();
}

void Schedule::give_back(std::size_t weight) {
  const std::lock_guard lock(mutex_);
  waiting_.push_front({weight, nullptr});
  return_put_off();
}

void Schedule::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace sparsmith
