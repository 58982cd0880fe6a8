#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/log.h"
#include "runtime/cublas_lt.h"
#include "runtime/gpu_executor.h"
#include "tuner/time/device_copies.h"
#include "tuner/time/gpu_timer.h"
#include "tuner/time/speed_probe.h"
#include "tuner/timing_device.h"
#include "tuner/vendor/vendor.h"
#include "tuner/verify/device_allocation.h"

namespace sparsmith {
namespace {

constexpr std::size_t kBandwidthBytes = std::size_t{2} << 30;  // copied: 2 GiB read, 2 GiB written

// Work without copies of a weight: `enqueue` makes one node.
class PlainWork : public TimedWork {
 public:
  explicit PlainWork(std::function<Status(CUstream)> enqueue, std::int64_t weight_bytes = 0)
      : enqueue_(std::move(enqueue)), weight_bytes_(weight_bytes) {}
  std::int64_t weight_bytes() const override { return weight_bytes_; }
  int nodes() const override { return 1; }
  Status make_copies(int) override { return {}; }
  Status enqueue(CUstream stream, int) override { return enqueue_(stream); }

 private:
  std::function<Status(CUstream)> enqueue_;
  std::int64_t weight_bytes_;
};

// Copies of one packed weight on the GPU, shared by the candidates that read it. The executor and the packing outlive
// it.
class PackingCopies {
 public:
  PackingCopies(GpuExecutor& executor, const DevicePacking& packing)
      : packed_(packing.packed()), copies_(executor, arrays_of(packing)), bindings_{packing.bindings()} {}

  Status make(int count) {
    SPARSMITH_RETURN_IF_ERROR(copies_.make(count));
    while (std::ssize(bindings_) < copies_.count()) {
      const int copy = static_cast<int>(bindings_.size());
      std::vector<LaunchBindings::Packed> arrays = bindings_.front();
      for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i].address = copies_.address(copy, i);
      bindings_.push_back(std::move(arrays));
    }
    return {};
  }
  // The arrays of copy `copy`; the packing's own for 0.
  const std::vector<LaunchBindings::Packed>& bindings(int copy) const { return bindings_[copy]; }
  const PackedWeight& packed() const { return packed_; }

 private:
  static std::vector<DeviceCopies::Array> arrays_of(const DevicePacking& packing) {
    std::vector<DeviceCopies::Array> arrays;
    const std::vector<LaunchBindings::Packed> bindings = packing.bindings();
    for (std::size_t i = 0; i < bindings.size(); ++i)
      arrays.push_back({bindings[i].address, packing.packed().arrays[i].bytes.size()});
    return arrays;
  }

  const PackedWeight& packed_;
  DeviceCopies copies_;
  std::vector<std::vector<LaunchBindings::Packed>> bindings_;
};

// A candidate's launch plan. Its kernels are loaded; plan and bindings' buffers outlive the work.
class PlanWork : public TimedWork {
 public:
  PlanWork(GpuExecutor& executor, const TimedCandidate& candidate, std::shared_ptr<PackingCopies> copies)
      : executor_(executor), plan_(*candidate.plan), bindings_(candidate.bindings), copies_(std::move(copies)) {}

  std::int64_t weight_bytes() const override { return copies_->packed().bytes(); }
  std::int64_t read_bytes() const override { return copies_->packed().read_bytes(); }
  int nodes() const override { return static_cast<int>(plan_.steps.size()); }
  Status make_copies(int count) override {
    SPARSMITH_RETURN_IF_ERROR(copies_->make(count));
    while (std::ssize(bound_) < count) {
      bindings_.packed = copies_->bindings(static_cast<int>(bound_.size()));
      SPARSMITH_ASSIGN_OR_RETURN(BoundPlan bound, executor_.bind(plan_, bindings_));
      bound_.push_back(std::move(bound));
    }
    return {};
  }
  Status enqueue(CUstream stream, int copy) override { return executor_.enqueue(bound_[copy], bindings_, stream); }

 private:
  GpuExecutor& executor_;
  const LaunchPlan& plan_;
  LaunchBindings bindings_;
  std::shared_ptr<PackingCopies> copies_;
  std::vector<BoundPlan> bound_;  // to each copy
};

class GpuTimingDevice : public TimingDevice {
 public:
  explicit GpuTimingDevice(GpuExecutor& executor)
      : executor_(executor), timer_(executor.context(), executor.stream()) {}

  void warm_up() override {
    const CudaContext::Scope scope(executor_.context());
    if (!scope.status().ok()) return;
    const auto library = cublas_lt();
    if (!library.ok()) log_debug("{}", library.status().message());
  }

  Result<DeviceSpeeds> measure_speeds(bool with_probe) override {
    const CudaContext::Scope scope(executor_.context());
    SPARSMITH_RETURN_IF_ERROR(scope.status());
    DeviceSpeeds speeds;
    SPARSMITH_ASSIGN_OR_RETURN(speeds.memory_bandwidth, measure_memory_bandwidth());
    if (with_probe) SPARSMITH_RETURN_IF_ERROR(run_probe(speeds));
    return speeds;
  }

  void set_problem(const ReferenceProblem* problem, PlanVerifier* verifier, bool same_weight) override {
    measured_.clear();
    vendor_problem_.reset();
    problem_ = problem;
    verifier_ = verifier;
    timer_.set_operand_bytes(problem == nullptr ? 0 : problem->operand_bytes());
    // Without a problem nothing is known of the weight yet; what there is of it stays until the next one says.
    if (problem == nullptr || same_weight) return;
    for (const auto& [name, vendor] : opened_) vendor->forget_weight();
  }

  Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy,
                              const std::vector<std::string>& without) override {
    const CudaContext::Scope scope(executor_.context());
    SPARSMITH_RETURN_IF_ERROR(scope.status());
    if (problem_ == nullptr) return invalid_argument("there is no problem to measure " + name + " on");
    Result<VendorTiming> timing = best_of(name, policy, without);
    if (timing.ok() || timing.status().code() != StatusCode::kUnsupported) return timing;
    VendorTiming not_supported;
    not_supported.name = name;
    not_supported.supported = false;
    not_supported.detail = timing.status().message();
    return not_supported;
  }

  Result<std::vector<Timing>> time(const std::vector<TimedCandidate>& candidates,
                                   const std::vector<std::string>& vendors, const TimingPolicy& policy) override {
    const CudaContext::Scope scope(executor_.context());
    SPARSMITH_RETURN_IF_ERROR(scope.status());
    std::map<const DevicePacking*, std::shared_ptr<PackingCopies>> copies;
    std::vector<std::unique_ptr<PlanWork>> plans;
    std::vector<TimedWork*> works;
    for (const TimedCandidate& candidate : candidates) {
      std::shared_ptr<PackingCopies>& shared = copies[candidate.packing];
      if (shared == nullptr) shared = std::make_shared<PackingCopies>(executor_, *candidate.packing);
      plans.push_back(std::make_unique<PlanWork>(executor_, candidate, shared));
      works.push_back(plans.back().get());
    }
    for (const std::string& name : vendors) {
      const auto found = measured_.find(name);
      if (found == measured_.end()) return not_found(name + " was not measured on this weight and N");
      works.push_back(found->second.get());
    }
    return timer_.time(works, policy);
  }

 private:
  Result<double> measure_memory_bandwidth() {
    SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation from, DeviceAllocation::make(executor_, kBandwidthBytes));
    SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation to, DeviceAllocation::make(executor_, kBandwidthBytes));
    const auto enqueue = [&](CUstream stream) {
      const CudaDriver& driver = executor_.driver();
      return driver.check(driver.MemcpyDtoDAsync(to.address(), from.address(), kBandwidthBytes, stream),
                          "copying device memory");
    };
    PlainWork copy(enqueue, kBandwidthBytes);
    // Not in a graph: its copy nodes may go to a copy engine, which reaches two thirds of what kernels do.
    double fastest_us = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 5; ++round) {
      SPARSMITH_ASSIGN_OR_RETURN(const double launch_us, timer_.time_launches(copy, 1));
      fastest_us = std::min(fastest_us, launch_us);
    }
    return 2.0 * static_cast<double>(kBandwidthBytes) / (fastest_us * 1e-6);
  }

  // Fills in what only the probe's kernel tells.
  Status run_probe(DeviceSpeeds& speeds) {
    SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation words, DeviceAllocation::make(executor_, kSpeedProbeBytes));
    SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation found, DeviceAllocation::make(executor_, 4));
    SPARSMITH_RETURN_IF_ERROR(executor_.fill(words.address(), std::byte{0}, kSpeedProbeBytes));
    LaunchBindings bindings;
    bindings.packed = {{"words", words.address()}, {"found", found.address()}};
    const auto probe = [&](std::int64_t bytes) {
      const LaunchPlan plan = speed_probe_plan(executor_.properties().sm_count, bytes);
      return PlainWork([&, plan](CUstream stream) { return executor_.enqueue(plan, bindings, stream); });
    };
    PlainWork reads = probe(kSpeedProbeBytes);
    PlainWork nothing = probe(0);
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

  // Opened when first asked for. Errors: kNotFound for no vendor's name; kUnsupported.
  Result<Vendor*> opened(const std::string& name) {
    if (name != "cusparse" && name != "cusparselt")
      return not_found(fmt::format("\"{}\" is no vendor library that can be measured: cusparse, cusparselt", name));
    std::unique_ptr<Vendor>& slot = opened_[name];
    if (slot == nullptr) {
      auto vendor = name == "cusparse" ? open_cusparse(executor_) : open_cusparse_lt(executor_);
      if (!vendor.ok()) return unsupported(vendor.status().message());
      slot = *std::move(vendor);
    }
    return slot.get();
  }

  // The best that a vendor does on the problem. Error: kUnsupported where it does nothing.
  Result<VendorTiming> best_of(const std::string& name, const TimingPolicy& policy,
                               const std::vector<std::string>& without) {
    SPARSMITH_ASSIGN_OR_RETURN(Vendor* const vendor, opened(name));
    if (!problem_->spec().multiplies_weight()) return unsupported("no library is measured on sddmm");
    if (vendor_problem_ == nullptr) {
      SPARSMITH_ASSIGN_OR_RETURN(vendor_problem_, VendorProblem::create(executor_, *problem_, verifier_));
    }
    measured_.erase(name);
    Result<std::vector<std::unique_ptr<VendorWork>>> works = vendor->works(*vendor_problem_);
    if (!works.ok()) return unsupported(works.status().message());
    std::erase_if(*works,
                  [&](const auto& work) { return std::ranges::find(without, work->detail()) != without.end(); });
    SPARSMITH_ASSIGN_OR_RETURN(BestVendorWork best, best_work(timer_, *vendor_problem_, *std::move(works), policy));
    best.timing.name = name;
    if (best.work != nullptr) measured_[name] = std::move(best.work);
    return std::move(best.timing);
  }

  GpuExecutor& executor_;
  GpuTimer timer_;
  const ReferenceProblem* problem_ = nullptr;
  PlanVerifier* verifier_ = nullptr;
  std::map<std::string, std::unique_ptr<Vendor>> opened_;        // by name
  std::unique_ptr<VendorProblem> vendor_problem_;                // of problem_; made when first needed
  std::map<std::string, std::unique_ptr<VendorWork>> measured_;  // the best of each vendor on problem_
};

}  // namespace

std::unique_ptr<TimingDevice> make_gpu_timing_device(GpuExecutor& executor) {
  return std::make_unique<GpuTimingDevice>(executor);
}

}  // namespace sparsmith
