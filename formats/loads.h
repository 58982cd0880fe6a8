// Even distribution of work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace sparsmith {

// Gives each piece of work to the worker with the least work so far (Graham, 1969). Of equals, the first worker gets
// it.
class Loads {
 public:
  explicit Loads(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) loads_.emplace(0, i);
  }

  // Returns the worker that gets the work.
  std::int64_t give(std::int64_t work) {
    const auto [load, index] = loads_.top();
    loads_.pop();
    loads_.emplace(load + work, index);
    most_ = std::max(most_, load + work);
    return index;
  }
  std::int64_t most() const { return most_; }

 private:
  using Load = std::pair<std::int64_t, std::int64_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads_;
  std::int64_t most_ = 0;
};

}  // namespace sparsmith
