// Timing on a GPU: candidates, and vendor libraries beside them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/gpu_executor.h"
#include "tuner/gpu_timer.h"
#include "tuner/timing_device.h"
#include "tuner/vendor.h"

namespace sparsmith {

// The executor outlives it.
class GpuTimingDevice : public TimingDevice {
 public:
  explicit GpuTimingDevice(GpuExecutor& executor)
      : executor_(executor), timer_(executor.context(), executor.stream()) {}

  void warm_up() override;
  Result<DeviceSpeeds> measure_speeds(bool with_probe) override;
  void set_problem(const ReferenceProblem* problem, PlanVerifier* verifier, bool same_weight) override;
  Result<std::vector<Timing>> time(const std::vector<TimedCandidate>& candidates,
                                   const std::vector<std::string>& vendors, const TimingPolicy& policy) override;
  Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy) override;

 private:
  Result<double> measure_memory_bandwidth();
  // Fills in what only the probe's kernel tells.
  Status run_probe(DeviceSpeeds& speeds);
  // Opened when first asked for. Error: kNotFound for no vendor's name.
  Result<Vendor*> opened(const std::string& name);

  GpuExecutor& executor_;
  GpuTimer timer_;
  const ReferenceProblem* problem_ = nullptr;
  PlanVerifier* verifier_ = nullptr;
  std::map<std::string, std::unique_ptr<Vendor>> vendors_;
  std::unique_ptr<VendorProblem> vendor_problem_;                // of problem_; made when first needed
  std::map<std::string, std::unique_ptr<VendorWork>> measured_;  // the best of each vendor on problem_
};

}  // namespace sparsmith
