// What the search asks of a device: the Worker's calls as an interface, so that the search can be tested against
// a device that is scripted to be slow, wrong, or to die.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tuner/worker.h"

namespace sparsmith {

// The contracts are those of Worker's functions of the same names. One thread at a time.
class Measurer {
 public:
  virtual ~Measurer() = default;

  virtual const DeviceProperties& properties() const = 0;
  virtual Result<DeviceSpeeds> measure_speeds() = 0;
  virtual Status check_known_good() = 0;
  virtual Status set_weight(const CsrMatrix& matrix, const OperatorSpec& spec) = 0;
  virtual Status send_packing(const PackedWeight& packed) = 0;
  virtual Status place_packing(const std::string& name) = 0;
  virtual Status drop_packing(const std::string& name) = 0;
  virtual Status set_tokens(std::int64_t tokens, std::uint64_t seed) = 0;
  virtual void limit_candidates(std::chrono::milliseconds limit) = 0;
  virtual Result<Verification> verify(const LoadedCandidate& candidate) = 0;
  virtual Result<Timing> time(const LoadedCandidate& candidate, const TimingPolicy& policy) = 0;
  virtual Result<std::vector<Timing>> time_interleaved(const std::vector<LoadedCandidate>& candidates,
                                                       const std::vector<std::string>& vendors,
                                                       const TimingPolicy& policy) = 0;
  virtual Result<std::vector<Timing>> time_unverified(const std::vector<LoadedCandidate>& candidates,
                                                      const TimingPolicy& policy) = 0;
  virtual Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy) = 0;
};

// Starts a measurer; called again whenever one has died.
using MeasurerFactory = std::function<Result<std::unique_ptr<Measurer>>()>;

// Each measurer is a worker process.
MeasurerFactory worker_measurers(const Worker::Options& options);

}  // namespace sparsmith
