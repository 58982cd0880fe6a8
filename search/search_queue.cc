#include "search/search_queue.h"

#include <algorithm>

#include "base/log.h"
#include "base/stopwatch.h"

namespace sparsmith {

Status SearchQueue::run(std::span<BucketSearch* const> searches) {
  std::size_t begun = 0;
  while (begun < searches.size() || !open_.empty()) {
    while (begun < searches.size() && (open_.empty() || hooks_.room_for_another())) {
      hooks_.begins(begun);
      open_.push_back(searches[begun++]);
      if (begun == 1) open_.front()->hurry();
    }
    BucketSearch* const search = next();
    SPARSMITH_ASSIGN_OR_RETURN(const bool over, search->advance());
    std::erase(open_, search);
    if (over) {
      SPARSMITH_RETURN_IF_ERROR(hooks_.over(search));
    } else {
      open_.insert(open_.begin(), search);  // where it is as ready as others, it goes on
    }
  }
  return {};
}

BucketSearch* SearchQueue::next() {
  while (!any_prepared()) {
    open_.front()->hurry();
    wait();
  }
  return *std::ranges::find_if(open_, &BucketSearch::prepared);
}

bool SearchQueue::any_prepared() const { return std::ranges::any_of(open_, &BucketSearch::prepared); }

void SearchQueue::wait() {
  double waited = 0;
  {
    const Stopwatch stopwatch(waited);
    signal_.wait([this] { return any_prepared(); });
  }
  session_.add_waiting(waited);
  log_debug("{}: waited for kernels for {:.2f} s", weight_, waited);
}

}  // namespace sparsmith
