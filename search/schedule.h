// The way of a run's weights: prepared by some threads, searched on devices by others, each weight once.
//
// Preparing threads read weights and make their candidates; a few prepared weights wait for the next free device. A
// weight that can learn from one being searched is put off until some search is done. The weight of a lost device
// starts again. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "search/weight_search.h"

namespace sparsmith {

class Schedule {
 public:
  struct Turn {
    std::size_t weight = 0;                // index
    std::unique_ptr<WeightSearch> search;  // null: not read yet
    std::uint64_t searches = 0;            // that had ended when the turn came
  };

  // `order`: every weight once. `lookahead`: weights that may be prepared or under preparation at once.
  Schedule(const std::vector<std::size_t>& order, std::size_t lookahead);

  // For preparers: what is next; waits until there is something. Nothing: the run is over.
  std::optional<Turn> next_to_prepare();
  // What becomes of it: it waits for the end of some search, it waits for a device, or no search is needed.
  void put_off(Turn turn);
  void ready(Turn turn);
  void needs_no_search();

  // For devices: the next prepared weight; waits for one. Nothing: the run is over.
  std::optional<Turn> next_to_search();
  // What becomes of it: its search has ended, or its device is lost and it begins anew.
  void searched();
  void give_back(std::size_t weight);

  // The run ends: there is no next one from now on.
  void stop();

 private:
  bool over() const { return stopped_ || left_ == 0; }
  // What was put off has its turn next.
  void return_put_off();

  const std::size_t lookahead_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::size_t left_;            // not done
  std::size_t preparing_ = 0;   // turns that preparers are at
  std::uint64_t searches_ = 0;  // that have ended
  bool stopped_ = false;
  std::deque<Turn> waiting_;
  std::deque<Turn> ready_;
  std::vector<Turn> put_off_;
};

}  // namespace sparsmith
