#include "tuner/gpu_timing_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "runtime/cublas_lt.h"
#include "tuner/device_allocation.h"
#include "tuner/plan_work.h"
#include "tuner/speed_probe.h"

namespace sparsmith {
namespace {

constexpr std::size_t kBandwidthBytes = std::size_t{2} << 30;  // copied: 2 GiB read, 2 GiB written

// Copies one half of a buffer to the other.
class CopyWork : public TimedWork {
 public:
  CopyWork(const CudaDriver& driver, DeviceAddress from, DeviceAddress to) : driver_(driver), from_(from), to_(to) {}
  std::int64_t weight_bytes() const override { return static_cast<std::int64_t>(kBandwidthBytes); }
  int nodes() const override { return 1; }
  Status make_copies(int) override { return {}; }
  Status enqueue(CUstream stream, int) override {
    return driver_.check(driver_.MemcpyDtoDAsync(to_, from_, kBandwidthBytes, stream), "copying device memory");
  }

 private:
  const CudaDriver& driver_;
  DeviceAddress from_;
  DeviceAddress to_;
};

// A launch of the probe's kernel.
class ProbeWork : public TimedWork {
 public:
  ProbeWork(GpuExecutor& executor, const LaunchBindings& bindings, std::int64_t bytes)
      : executor_(executor), plan_(speed_probe_plan(executor.properties().sm_count, bytes)), bindings_(bindings) {}
  std::int64_t weight_bytes() const override { return 0; }
  int nodes() const override { return 1; }
  Status make_copies(int) override { return {}; }
  Status enqueue(CUstream stream, int) override { return executor_.enqueue(plan_, bindings_, stream); }

 private:
  GpuExecutor& executor_;
  LaunchPlan plan_;
  const LaunchBindings& bindings_;
};

}  // namespace

void GpuTimingDevice::warm_up() {
  const CudaContext::Scope scope(executor_.context());
  if (!scope.status().ok()) return;
  const auto library = cublas_lt();
  if (!library.ok()) log_debug("{}", library.status().message());
}

Result<DeviceSpeeds> GpuTimingDevice::measure_speeds(bool with_probe) {
  const CudaContext::Scope scope(executor_.context());
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  DeviceSpeeds speeds;
  SPARSMITH_ASSIGN_OR_RETURN(speeds.memory_bandwidth, measure_memory_bandwidth());
  if (with_probe) SPARSMITH_RETURN_IF_ERROR(run_probe(speeds));
  return speeds;
}

Status GpuTimingDevice::run_probe(DeviceSpeeds& speeds) {
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation words, DeviceAllocation::make(executor_, kSpeedProbeBytes));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation found, DeviceAllocation::make(executor_, 4));
  SPARSMITH_RETURN_IF_ERROR(executor_.fill(words.address(), std::byte{0}, kSpeedProbeBytes));
  LaunchBindings bindings;
  bindings.packed = {{"words", words.address()}, {"found", found.address()}};
  ProbeWork reads(executor_, bindings, kSpeedProbeBytes);
  ProbeWork nothing(executor_, bindings, 0);
  TimingPolicy policy;
  policy.cold_weights = false;
  // One after the other: the timer stops replaying what is far slower than the fastest.
  TimedWork* work = &nothing;
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Timing> launches, timer_.time({&work, 1}, policy));
  work = &reads;
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Timing> passes, timer_.time({&work, 1}, policy));
  speeds.launch_us = launches.front().median_us;
  const double bytes = static_cast<double>(kSpeedProbeBytes) * executor_.properties().sm_count;
  speeds.l2_bandwidth = bytes / std::max(passes.front().median_us - speeds.launch_us, 1.0) * 1e6;
  return {};
}

Result<double> GpuTimingDevice::measure_memory_bandwidth() {
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation from, DeviceAllocation::make(executor_, kBandwidthBytes));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation to, DeviceAllocation::make(executor_, kBandwidthBytes));
  CopyWork copy(executor_.driver(), from.address(), to.address());
  // Not in a graph: its copy nodes may go to a copy engine, which reaches two thirds of what kernels do.
  double fastest_us = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 5; ++round) {
    SPARSMITH_ASSIGN_OR_RETURN(const double launch_us, timer_.time_launches(copy, 1));
    fastest_us = std::min(fastest_us, launch_us);
  }
  return 2.0 * static_cast<double>(kBandwidthBytes) / (fastest_us * 1e-6);
}

void GpuTimingDevice::set_problem(const ReferenceProblem* problem, PlanVerifier* verifier, bool same_weight) {
  measured_.clear();
  vendor_problem_.reset();
  problem_ = problem;
  verifier_ = verifier;
  // Without a problem nothing is known of the weight yet; what there is of it stays until the next one says.
  if (problem == nullptr || same_weight) return;
  for (const auto& [name, vendor] : vendors_)
    if (vendor != nullptr) vendor->forget_weight();
}

Result<Vendor*> GpuTimingDevice::opened(const std::string& name) {
  std::unique_ptr<Vendor>& slot = vendors_[name];
  if (slot == nullptr) {
    if (name != "cusparse")
      return not_found(fmt::format("\"{}\" is no vendor library that can be measured: cusparse", name));
    SPARSMITH_ASSIGN_OR_RETURN(slot, open_cusparse(executor_));
  }
  return slot.get();
}

Result<VendorTiming> GpuTimingDevice::vendor(const std::string& name, const TimingPolicy& policy) {
  const CudaContext::Scope scope(executor_.context());
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  if (problem_ == nullptr) return invalid_argument("there is no problem to measure " + name + " on");
  const auto not_supported = [&name](const Status& reason) {
    VendorTiming timing;
    timing.name = name;
    timing.supported = false;
    timing.detail = reason.message();
    return timing;
  };
  const Result<Vendor*> found = opened(name);
  if (found.ok() && !problem_->spec().multiplies_weight())
    return not_supported(unsupported("no library is measured on sddmm"));
  if (!found.ok()) {
    if (found.status().code() == StatusCode::kNotFound) return found.status();
    return not_supported(found.status());
  }
  if (vendor_problem_ == nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(vendor_problem_, VendorProblem::create(executor_, *problem_, verifier_));
  }
  measured_.erase(name);
  Result<std::vector<std::unique_ptr<VendorWork>>> works = (*found)->works(*vendor_problem_);
  if (!works.ok()) return not_supported(works.status());
  Result<BestVendorWork> best = best_work(timer_, *vendor_problem_, *std::move(works), policy);
  if (!best.ok()) {
    if (best.status().code() == StatusCode::kUnsupported) return not_supported(best.status());
    return best.status();
  }
  best->timing.name = name;
  measured_[name] = std::move(best->work);
  return std::move(best->timing);
}

Result<std::vector<Timing>> GpuTimingDevice::time(const std::vector<TimedCandidate>& candidates,
                                                  const std::vector<std::string>& vendors, const TimingPolicy& policy) {
  const CudaContext::Scope scope(executor_.context());
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  std::map<const DevicePacking*, std::shared_ptr<PackingCopies>> copies;
  std::vector<std::unique_ptr<PlanWork>> plans;
  std::vector<TimedWork*> works;
  for (const TimedCandidate& candidate : candidates) {
    std::shared_ptr<PackingCopies>& shared = copies[candidate.packing];
    if (shared == nullptr) shared = std::make_shared<PackingCopies>(executor_, *candidate.packing);
    plans.push_back(std::make_unique<PlanWork>(executor_, *candidate.plan, candidate.bindings, shared));
    works.push_back(plans.back().get());
  }
  for (const std::string& name : vendors) {
    const auto found = measured_.find(name);
    if (found == measured_.end()) return not_found(name + " was not measured on this weight and N");
    works.push_back(found->second.get());
  }
  return timer_.time(works, policy);
}

}  // namespace sparsmith
