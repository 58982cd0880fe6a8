#include "search/scripted_measurer.h"

#include <mutex>
#include <set>

#include "base/hash.h"
#include "tuner/known_good_kernel.h"

namespace sparsmith {
namespace {

std::string name_of(const LoadedCandidate& candidate) {
  return candidate.kernels.empty() ? "" : candidate.kernels.front().name;
}

class ScriptedMeasurer : public Measurer {
 public:
  explicit ScriptedMeasurer(DeviceScript& script) : script_(script) { ++script_.starts; }

  const DeviceProperties& properties() const override { return script_.properties; }
  Result<DeviceSpeeds> measure_speeds() override {
    if (script_.properties.is_emulator) return unsupported("an emulator has no speeds");
    ++script_.probed;
    return DeviceSpeeds{.memory_bandwidth = 4.1e12, .l2_bandwidth = 5e12, .launch_us = 2};
  }
  Status check_known_good() override { return script_.known_good ? script_.known_good() : alive(); }
  Status set_weight(const CsrMatrix&, const OperatorSpec&) override {
    const std::lock_guard lock(script_.mutex);
    ++script_.weights_set;
    script_.verified_each.push_back(0);
    packings_.clear();
    return alive();
  }
  Status send_packing(const PackedWeight& packed) override {
    const std::lock_guard lock(script_.mutex);
    sent_ = packed.packing;
    script_.packed_bytes[packed.packing] = packed.bytes();
    return alive();
  }
  Status place_packing(const std::string& name) override {
    if (name != sent_) return invalid_argument(name + " was not sent");
    packings_.insert(name);
    return alive();
  }
  Status drop_packing(const std::string& name) override {
    packings_.erase(name);
    return alive();
  }
  Status set_tokens(std::int64_t tokens, std::uint64_t) override {
    script_.tokens = tokens;
    verified_.clear();
    vendors_.clear();
    return alive();
  }

  void limit_candidates(std::chrono::milliseconds limit) override {
    const std::lock_guard lock(script_.mutex);
    script_.limits.push_back(limit);
  }

  Result<Verification> verify(const LoadedCandidate& candidate) override {
    if (candidate.plan.has_matmul() && script_.dense_us <= 0) return unsupported("the library is missing");
    if (candidate.kernels.empty()) {
      SPARSMITH_RETURN_IF_ERROR(check(candidate));
      verified_.insert("");
      Verification right;
      right.ok = true;
      return right;
    }
    if (script_.before_verify) script_.before_verify();
    SPARSMITH_RETURN_IF_ERROR(check(candidate));
    if (script_.machine_fault) SPARSMITH_RETURN_IF_ERROR(script_.machine_fault(candidate));
    if (script_.kills && script_.kills(candidate)) return die(candidate, "the worker died of signal 11");
    const Fault fault = fault_of(candidate);
    if (fault == Fault::kIllegalAccess) return die(candidate, "the worker died of signal 11");
    if (fault == Fault::kEndlessLoop) return die(candidate, "the worker gave no answer within 120 s and was killed");
    if (fault == Fault::kOutOfMemory) return out_of_memory("out of device memory");
    ++script_.verified;
    ++script_.verified_each.back();
    Verification verification;
    verification.ok = !(script_.is_wrong && script_.is_wrong(candidate)) && fault != Fault::kWrongResult;
    if (!verification.ok) verification.reason = "y[0][0] = 1, expected 0";
    if (verification.ok) verified_.insert(name_of(candidate));
    return verification;
  }

  Result<Timing> time(const LoadedCandidate& candidate, const TimingPolicy& policy) override {
    SPARSMITH_RETURN_IF_ERROR(check(candidate));
    if (!verified_.contains(name_of(candidate))) return internal_error("timed before it was verified");
    if (candidate.kernels.empty()) return timing(time_of(candidate), policy);
    if (fault_of(candidate) == Fault::kDiesWhenTimed) return die(candidate, "the worker died of signal 9");
    ++script_.timed;
    return timing(time_of(candidate), policy);
  }

  Result<std::vector<Timing>> time_interleaved(const std::vector<LoadedCandidate>& candidates,
                                               const std::vector<std::string>& vendors,
                                               const TimingPolicy& policy) override {
    ++script_.finals;
    std::vector<Timing> timings;
    for (const LoadedCandidate& candidate : candidates) {
      SPARSMITH_ASSIGN_OR_RETURN(Timing one, time(candidate, policy));
      timings.push_back(std::move(one));
    }
    for (const std::string& name : vendors) {
      if (!vendors_.contains(name)) return invalid_argument(name + " was not measured");
      timings.push_back(timing(script_.dense_us, policy));
    }
    return timings;
  }

  Result<std::vector<Timing>> time_unverified(const std::vector<LoadedCandidate>& candidates,
                                              const TimingPolicy& policy) override {
    std::vector<Timing> timings;
    for (const LoadedCandidate& candidate : candidates) {
      SPARSMITH_RETURN_IF_ERROR(check(candidate));
      if (fault_of(candidate) == Fault::kDiesWhenTimed) return die(candidate, "the worker died of signal 9");
      script_.timed_unverified.push_back(name_of(candidate));
      timings.push_back(timing(time_of(candidate), policy));
    }
    return timings;
  }

  Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy) override {
    SPARSMITH_RETURN_IF_ERROR(alive());
    ++script_.vendors_timed;
    VendorTiming vendor;
    vendor.name = name;
    vendor.supported = script_.dense_us > 0;
    vendor.detail = vendor.supported ? "algorithm 1" : "the library is missing";
    vendor.verification.ok = true;
    vendor.timing = timing(script_.dense_us, policy);
    if (vendor.supported) vendors_.insert(name);
    return vendor;
  }

 private:
  using Fault = DeviceScript::Fault;
  Fault fault_of(const LoadedCandidate& candidate) const {
    return script_.fault ? script_.fault(candidate) : Fault::kNone;
  }

  Status die(const LoadedCandidate& candidate, const char* how) {
    dead_ = true;
    script_.deaths.push_back(name_of(candidate));
    return device_error(how);
  }

  Status alive() const { return dead_ ? device_error("the worker died before") : Status(); }

  Status check(const LoadedCandidate& candidate) const {
    SPARSMITH_RETURN_IF_ERROR(alive());
    if (script_.properties.is_emulator) return {};
    if (!packings_.contains(candidate.packing)) return invalid_argument("no packing " + candidate.packing);
    for (const KernelImage& kernel : candidate.kernels) {
      if (kernel.cubin.empty()) return invalid_argument("no binary of " + kernel.name);
    }
    return {};
  }

  double time_of(const LoadedCandidate& candidate) const {
    if (candidate.plan.has_matmul()) return script_.dense_us * (1 + 0.01 * candidate.plan.steps.front().proposal);
    if (script_.time_us) return script_.time_us(candidate);
    return 5 + static_cast<double>(hash64(name_of(candidate)) % 1000) / 200;
  }

  static Timing timing(double us, const TimingPolicy& policy) {
    Timing timing;
    timing.median_us = timing.q1_us = timing.q3_us = us;
    timing.too_slow = policy.limit_us > 0 && us > policy.limit_us;
    timing.samples_us.assign(timing.too_slow ? 1 : policy.min_replays, static_cast<float>(us));
    return timing;
  }

  DeviceScript& script_;
  bool dead_ = false;
  std::string sent_;  // packing
  std::set<std::string> packings_;
  std::set<std::string> verified_;
  std::set<std::string> vendors_;
};

class ScriptedCompiler : public KernelCompiler {
 public:
  explicit ScriptedCompiler(CompilerScript& script) : script_(script) {}
  std::string version() const override { return "13.0"; }
  Result<CompiledKernel> compile(const KernelSource& kernel, const std::string&) const override {
    if (script_.before) script_.before(kernel.name);
    const std::lock_guard lock(mutex_);
    if (kernel.name == known_good_kernel()->name) {
      if (script_.known_good) SPARSMITH_RETURN_IF_ERROR(script_.known_good());
      return CompiledKernel{};
    }
    ++script_.compiled[kernel.name];
    if (script_.fails && script_.fails(kernel.name)) return invalid_input("drawn not to compile");
    if (script_.error) SPARSMITH_RETURN_IF_ERROR(script_.error(kernel.name));
    CompiledKernel compiled;
    compiled.name = kernel.name;
    const auto* name = reinterpret_cast<const std::byte*>(kernel.name.data());
    compiled.cubin.assign(name, name + kernel.name.size());
    compiled.figures.registers = 32;
    if (script_.spills && script_.spills(kernel.name)) compiled.figures.spill_store_bytes = 256;
    return compiled;
  }

 private:
  CompilerScript& script_;
  mutable std::mutex mutex_;
};

}  // namespace

MeasurerFactory scripted_measurers(DeviceScript& script) {
  return [&script]() -> Result<std::unique_ptr<Measurer>> {
    if (script.gone) return no_device("there is no such device any more");
    return std::unique_ptr<Measurer>(std::make_unique<ScriptedMeasurer>(script));
  };
}

std::unique_ptr<KernelCompiler> scripted_compiler(CompilerScript& script) {
  return std::make_unique<ScriptedCompiler>(script);
}

}  // namespace sparsmith
