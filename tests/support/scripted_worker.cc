#include "tests/support/scripted_worker.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/hash.h"
#include "tuner/compile/known_good_kernel.h"

namespace sparsmith {
namespace {

std::string name_of(const CompiledCandidate& candidate) {
  return candidate.kernels.empty() ? "" : candidate.kernels.front().name;
}

class ScriptedWorker {
 public:
  explicit ScriptedWorker(DeviceScript& script) : script_(script) { ++script_.starts; }

  Result<WorkerReply> handle(WorkerCall& call, std::chrono::milliseconds limit) {
    if (limit < Worker::kNoLimit && !std::holds_alternative<VendorCall>(call)) {
      const std::lock_guard lock(script_.mutex);
      script_.limits.push_back(limit);
    }
    return answer_call<WorkerReply>(call, [this](const auto& typed) { return answer(typed); });
  }

 private:
  Result<DeviceProperties> answer(const PropertiesCall&) { return script_.properties; }
  Result<DeviceSpeeds> answer(const SpeedsCall&) {
    if (script_.properties.is_emulator) return unsupported("an emulator has no speeds");
    ++script_.probed;
    return DeviceSpeeds{.memory_bandwidth = 4.1e12, .l2_bandwidth = 5e12, .launch_us = 2};
  }
  Status answer(const KnownGoodCall&) { return script_.known_good ? script_.known_good() : alive(); }
  Status answer(const OwnKernelCall&) { return internal_error("there is no compiler"); }
  Status answer(const WeightCall&) {
    const std::lock_guard lock(script_.mutex);
    ++script_.weights_set;
    script_.verified_each.push_back(0);
    packings_.clear();
    return alive();
  }
  Status answer(const PackingCall& call) {
    const std::lock_guard lock(script_.mutex);
    sent_ = call.packed->packing;
    script_.packed_bytes[sent_] = call.packed->bytes();
    return alive();
  }
  Status answer(const PlacePackingCall& call) {
    if (call.packing != sent_) return invalid_argument(call.packing + " was not sent");
    packings_.insert(call.packing);
    return alive();
  }
  Status answer(const DropPackingCall& call) {
    packings_.erase(call.packing);
    return alive();
  }
  Status answer(const TokensCall& call) {
    script_.tokens = call.tokens;
    verified_.clear();
    vendors_.clear();
    return alive();
  }

  Result<Verification> answer(const VerifyCall& call) {
    const CompiledCandidate& candidate = call.candidate;
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

  Result<std::vector<Timing>> answer(const TimeCall& call) {
    if (call.unverified) return time_unverified(call);
    if (call.candidates.size() > 1 || !call.vendors.empty()) ++script_.finals;
    std::vector<Timing> timings;
    for (const CompiledCandidate& candidate : call.candidates) {
      SPARSMITH_ASSIGN_OR_RETURN(Timing one, time(candidate, call.policy));
      timings.push_back(std::move(one));
    }
    for (const std::string& name : call.vendors) {
      if (!vendors_.contains(name)) return invalid_argument(name + " was not measured");
      timings.push_back(timing(script_.dense_us, call.policy));
    }
    return timings;
  }

  Result<Timing> time(const CompiledCandidate& candidate, const TimingPolicy& policy) {
    SPARSMITH_RETURN_IF_ERROR(check(candidate));
    if (!verified_.contains(name_of(candidate))) return internal_error("timed before it was verified");
    if (candidate.kernels.empty()) return timing(time_of(candidate), policy);
    if (fault_of(candidate) == Fault::kDiesWhenTimed) return die(candidate, "the worker died of signal 9");
    ++script_.timed;
    return timing(time_of(candidate), policy);
  }

  Result<std::vector<Timing>> time_unverified(const TimeCall& call) {
    std::vector<Timing> timings;
    for (const CompiledCandidate& candidate : call.candidates) {
      SPARSMITH_RETURN_IF_ERROR(check(candidate));
      if (fault_of(candidate) == Fault::kDiesWhenTimed) return die(candidate, "the worker died of signal 9");
      script_.timed_unverified.push_back(name_of(candidate));
      timings.push_back(timing(time_of(candidate), call.policy));
    }
    return timings;
  }

  Result<VendorTiming> answer(const VendorCall& call) {
    SPARSMITH_RETURN_IF_ERROR(alive());
    ++script_.vendors_timed;
    script_.vendor_without = call.without;
    if (call.name == script_.hanging) {
      dead_ = true;
      return device_error("the worker stopped answering");
    }
    VendorTiming vendor;
    vendor.name = call.name;
    const auto broke = std::ranges::find_if(script_.breaking, [&](const auto& each) {
      return std::ranges::find(call.without, each) == call.without.end();
    });
    if (call.name == "cusparselt" && broke != script_.breaking.end()) {
      dead_ = true;
      vendor.supported = false;
      vendor.broke = *broke;
      vendor.slower = {"slower than before " + *broke};
      vendor.detail = *broke + ": illegal instruction";
      return vendor;
    }
    vendor.supported = script_.dense_us > 0;
    vendor.detail = vendor.supported ? "algorithm 1" : "the library is missing";
    vendor.verification.ok = true;
    vendor.timing = timing(script_.dense_us, call.policy);
    if (vendor.supported) vendors_.insert(call.name);
    return vendor;
  }

  using Fault = DeviceScript::Fault;
  Fault fault_of(const CompiledCandidate& candidate) const {
    return script_.fault ? script_.fault(candidate) : Fault::kNone;
  }

  Status die(const CompiledCandidate& candidate, const char* how) {
    dead_ = true;
    script_.deaths.push_back(name_of(candidate));
    return device_error(how);
  }

  Status alive() const { return dead_ ? device_error("the worker died before") : Status(); }

  Status check(const CompiledCandidate& candidate) const {
    SPARSMITH_RETURN_IF_ERROR(alive());
    if (script_.properties.is_emulator) return {};
    if (!packings_.contains(candidate.packing)) return invalid_argument("no packing " + candidate.packing);
    for (const KernelImage& kernel : candidate.kernels) {
      if (kernel.cubin.empty()) return invalid_argument("no binary of " + kernel.name);
    }
    return {};
  }

  double time_of(const CompiledCandidate& candidate) const {
    for (const PlanStep& step : candidate.plan.steps) {
      if (step.kind != PlanStep::Kind::kMatmul) continue;
      const bool more = step.weight || (step.makes_gradient() && !candidate.kernels.empty());
      return script_.dense_us * (1 + 0.01 * step.proposal) + (more ? 10 : 0);  // to be unpacked, or to gather
    }
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

WorkerFactory scripted_workers(DeviceScript& script) {
  return [&script]() -> Result<std::unique_ptr<Worker>> {
    if (script.gone) return no_device("there is no such device any more");
    const auto worker = std::make_shared<ScriptedWorker>(script);
    const auto channel = [worker](WorkerCall call, std::chrono::milliseconds limit) {
      return worker->handle(call, limit);
    };
    const auto no_compiler = [](const KernelSource&, int) -> Result<KernelImage> { return not_found("no compiler"); };
    return Worker::connect(channel, no_compiler, "a script");
  };
}

std::unique_ptr<KernelCompiler> scripted_compiler(CompilerScript& script) {
  return std::make_unique<ScriptedCompiler>(script);
}

}  // namespace sparsmith
