// Time measurements, which a worker can make only on a GPU. The emulator has no TimingDevice.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "tuner/time/timing.h"
#include "tuner/vendor/vendor_timing.h"
#include "tuner/verify/device_packing.h"
#include "tuner/verify/reference_problem.h"

namespace sparsmith {

// A plan with loaded kernels, and the buffers of a run. The copies of its weight are made from `packing`.
struct TimedCandidate {
  const LaunchPlan* plan = nullptr;
  LaunchBindings bindings;
  const DevicePacking* packing = nullptr;
};

class GpuExecutor;
class PlanVerifier;

// One thread at a time.
class TimingDevice {
 public:
  virtual ~TimingDevice() = default;

  // Prepares the device, so that the first call below is faster.
  virtual void warm_up() {}

  // `with_probe`: the probe's kernel is loaded (tuner/time/speed_probe.h). Without the probe only the memory bandwidth
  // is measured.
  virtual Result<DeviceSpeeds> measure_speeds(bool with_probe) = 0;

  // Sets the problem of later vendor() and time() calls, and the verifier that may compare its outputs. Both outlive
  // these calls. nullptr: no problem. `same_weight`: only N and the inputs differ from the last problem.
  virtual void set_problem(const ReferenceProblem* problem, PlanVerifier* verifier, bool same_weight) = 0;

  // Times all, interleaved replay by replay. Returns one Timing for each candidate, then one for each vendor. Error:
  // kNotFound for a vendor that vendor() has not measured on this problem.
  virtual Result<std::vector<Timing>> time(const std::vector<TimedCandidate>& candidates,
                                           const std::vector<std::string>& vendors, const TimingPolicy& policy) = 0;

  // Error: kNotFound for an unknown vendor library. A library that is missing or does not support the problem is no
  // error.
  virtual Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy,
                                      const std::vector<std::string>& without) = 0;
};

// Times candidates and vendor libraries on a GPU. The executor outlives the result.
std::unique_ptr<TimingDevice> make_gpu_timing_device(GpuExecutor& executor);

}  // namespace sparsmith
