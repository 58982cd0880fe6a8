// What a worker can do only on a GPU: measure time. The emulator has none.
#pragma once

#include <string>
#include <vector>

#include "runtime/executor.h"
#include "tuner/device_packing.h"
#include "tuner/reference_problem.h"
#include "tuner/worker.h"

namespace sparsmith {

// A plan whose kernels are loaded, with the buffers of a run. Its weight's copies are made from `packing`.
struct TimedCandidate {
  const LaunchPlan* plan = nullptr;
  LaunchBindings bindings;
  const DevicePacking* packing = nullptr;
};

class PlanVerifier;

// One thread at a time.
class TimingDevice {
 public:
  virtual ~TimingDevice() = default;

  // Does in advance what the first of the calls below would do.
  virtual void warm_up() {}

  // `with_probe`: the probe's kernel is loaded (tuner/speed_probe.h); without it only the memory is measured.
  virtual Result<DeviceSpeeds> measure_speeds(bool with_probe) = 0;

  // What vendor() and time() are about from now on, and who may compare its outputs; both outlive that. nullptr:
  // nothing. `same_weight`: only N and the inputs differ from before.
  virtual void set_problem(const ReferenceProblem* problem, PlanVerifier* verifier, bool same_weight) = 0;

  // Interleaved replay by replay; one Timing a candidate, then one a vendor. Error: kNotFound for a vendor that
  // vendor() has not measured on this problem.
  virtual Result<std::vector<Timing>> time(const std::vector<TimedCandidate>& candidates,
                                           const std::vector<std::string>& vendors, const TimingPolicy& policy) = 0;

  // Error: kNotFound for a name that is none of a vendor library. One that is missing or cannot do it is no error.
  virtual Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy) = 0;
};

}  // namespace sparsmith
