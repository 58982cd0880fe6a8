// The searches of a weight's buckets on one device, all N together: the device tries candidates of one N while those
// of another are packed and compiled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "search/bucket_search.h"

namespace sparsmith {

class SearchQueue {
 public:
  struct Hooks {
    std::function<bool()> room_for_another;           // beside one that is open; where time or memory is short: none
    std::function<void(std::size_t)> begins;          // the search of this index
    std::function<Status(const BucketSearch*)> over;  // takes what came of it
  };

  // `searches` outlive the queue; `signal` is theirs. `weight`: in the log.
  SearchQueue(DeviceSession& session, PreparedSignal& signal, std::string weight, Hooks hooks)
      : session_(session), signal_(signal), weight_(std::move(weight)), hooks_(std::move(hooks)) {}

  // Error: the device is gone and cannot be had again; what `over` says.
  Status run(std::span<BucketSearch* const> searches);

 private:
  // The first that has what it asked for. Until there is one, kernels are hurried for one N at a time: other devices
  // wait for theirs.
  BucketSearch* next();
  bool any_prepared() const;
  void wait();

  DeviceSession& session_;
  PreparedSignal& signal_;
  const std::string weight_;
  const Hooks hooks_;
  std::vector<BucketSearch*> open_;  // the one whose N is set comes first
};

}  // namespace sparsmith
