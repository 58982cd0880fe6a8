// The search for the fastest candidate of one weight at one N on a device: trials as a strategy requests them, and a
// final in which the best trials, the baseline and the libraries are timed interleaved. Candidates of one bucket are
// packed and compiled while the device tries candidates of another bucket.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "search/choice/bucket.h"
#include "search/choice/tune_run.h"
#include "search/strategy/strategy_run.h"
#include "search/trial/device_session.h"
#include "search/trial/measurement_log.h"

namespace sparsmith {

// Wakes the device's thread when the candidates of some search are ready.
class PreparedSignal {
 public:
  void raise() {
    const std::lock_guard lock(mutex_);
    raised_.notify_all();
  }
  // Waits for `condition`, which becomes true before the signal is raised.
  template <class Condition>
  void wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    raised_.wait(lock, condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable raised_;
};

// One thread at a time: first a preparing thread, then the device's thread. Fills in the trials' states and timings,
// and the libraries' timings in the final.
class BucketSearch : private TrialBench {
 public:
  // The search reports progress and asks for its end here. `progress` may be empty.
  struct Hooks {
    std::function<void(const std::string& stage, std::size_t done, std::size_t total)> progress;
    std::function<bool()> out_of_time;  // the search's time is over; called often
  };
  // All arguments outlive the search; bucket.search exists until its end.
  BucketSearch(const TuneRun& run, Bucket& bucket, MeasurementLog log, PreparedSignal& signal, Hooks hooks);
  BucketSearch(const BucketSearch&) = delete;
  BucketSearch& operator=(const BucketSearch&) = delete;

  // Packs and generates the first candidates, and returns while they are being compiled.
  void prepare_first();

  // Whether the candidates of the last request are compiled.
  bool prepared() const { return prepared_; }
  // Moves its kernels to the front of the compiler's queue.
  void hurry();

  // Waits for the requested candidates, tries them, and requests more; after the last ones, times the final. Returns
  // whether the search is over. REQUIRES: the session has the weight. Error: the device is lost.
  Result<bool> advance(DeviceSession& session);

 private:
  // Packs, generates and compiles the requested candidates on a thread of its own.
  void compile(KernelStore::Urgency urgency);
  Status prepare(KernelStore::Urgency urgency);
  std::vector<std::size_t> requested() const;  // points
  bool races() const { return run_.options.strategy == StrategyKind::kRace; }

  bool known(const TrialRequest& request) override;
  Result<TrialOutcome> attempt(const TrialRequest& request) override;
  void tell() const;
  void limit_candidates();
  double limit_us(const Trial& trial) const;
  TimingPolicy policy(int replays) const;
  void reject_outdone(Trial& trial) const;
  Status first_turn(Trial& trial, int replays);
  bool recall(Trial& trial) const;
  void sample(Trial& trial, TimingPolicy policy);

  Status final();
  std::vector<std::size_t> finalists();
  Status interleave_best();
  void alone(const std::vector<Trial*>& finalists);
  void time_products(const std::vector<Trial*>& finalists);

  const TuneRun& run_;
  Bucket& bucket_;
  TrialSet& trials_;
  MeasurementLog log_;
  PreparedSignal& signal_;
  const Hooks hooks_;
  const std::unique_ptr<Strategy> strategy_;
  StrategyRun rounds_;
  DeviceSession* session_ = nullptr;  // of the call
  double best_us_ = 0;                // of all that was measured; 0: nothing yet
  std::set<std::size_t> tried_;
  std::vector<const Candidate*> first_;  // until they have been compiled, or hurried
  std::atomic<bool> prepared_ = false;
  std::future<Status> preparation_;  // last: it ends before what it works on
};

// Compiles, if there is a compiler, and verifies a trial that is only predicted. If it passes, its time is the
// prediction. `device`: the target. `session`: null where nothing can verify; then the trial passes unverified, and the
// log gets nothing. REQUIRES: the session has the weight, the tokens and the packing. Error: a fault of the machine.
Status verify_predicted(KernelStore& kernels, const DeviceProperties& device, DeviceSession* session,
                        MeasurementLog& log, Trial& trial);

}  // namespace sparsmith
