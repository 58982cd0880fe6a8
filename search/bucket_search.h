// The search of one bucket beside those of others: what it asks for is packed and compiled while the device tries what
// another one asked for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "search/bucket.h"
#include "search/device_search.h"
#include "search/weight_tuner.h"

namespace sparsmith {

// Tells the thread of a device that some search has what it asked for.
class PreparedSignal {
 public:
  void raise() {
    const std::lock_guard lock(mutex_);
    raised_.notify_all();
  }
  // Until `condition`, which changes before the signal is raised.
  template <class Condition>
  void wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    raised_.wait(lock, condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable raised_;
};

// One thread at a time: first one that prepares, then that of the device.
class BucketSearch {
 public:
  // What it is given outlives it; bucket.search is there until the end.
  BucketSearch(const TuneContext& context, Bucket& bucket, MeasurementLog log, PreparedSignal& signal);
  BucketSearch(const BucketSearch&) = delete;
  BucketSearch& operator=(const BucketSearch&) = delete;

  // Packs and generates the first candidates, and returns while they are being compiled.
  void prepare_first();

  // Whether what was asked for last is compiled.
  bool prepared() const { return prepared_; }
  // Has its kernels compiled in front of others.
  void hurry();

  // On the device that the context names: tries what was asked for, once it is prepared, and asks for more; plays the
  // final when there is nothing more. Returns whether the search is over. Error: the device is gone and cannot be had
  // again.
  Result<bool> advance();

 private:
  // Compiles what was proposed on a thread of its own; makes it, too, if that has not been done.
  void compile(KernelStore::Urgency urgency);
  Status prepare(KernelStore::Urgency urgency);
  void tell(std::size_t tried) const;
  bool races() const { return context_.options->strategy == StrategyKind::kRace; }

  const TuneContext& context_;
  Bucket& bucket_;
  Contenders& contenders_;
  MeasurementLog log_;
  PreparedSignal& signal_;
  const std::unique_ptr<Strategy> strategy_;
  const OutOfTime out_of_time_;
  const CandidateLimit enough_;
  DeviceSearch search_;
  std::vector<const Candidate*> first_;  // until they have been compiled, or hurried
  std::atomic<bool> prepared_ = false;
  std::future<Status> preparation_;  // last: it ends before what it works on
};

}  // namespace sparsmith
