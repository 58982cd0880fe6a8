// The calls of a worker and their replies. worker_server.cc and the scripted worker of tests answer them. doing()
// describes a call in errors: "verifying k: the worker died of signal 11".
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "runtime/device_properties.h"
#include "runtime/executor.h"
#include "runtime/operator_spec.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/process/call.h"
#include "tuner/time/timing.h"
#include "tuner/vendor/vendor_timing.h"
#include "tuner/verify/verification.h"

namespace sparsmith {

// The fields of other rooms' structs.

inline void type_field(auto& f, const char* key, DataType& type) {
  f.text(key, type, short_name, [](const std::string& name) -> Result<DataType> {
    const auto known = data_type_from_short_name(name);
    return known ? Result<DataType>(*known) : invalid_input("no such data type: " + name);
  });
}

SPARSMITH_FIELDS(DeviceProperties, name, compute_capability, sm_count, l2_bytes, memory_bytes, max_threads_per_block,
                 max_threads_per_sm, max_blocks_per_sm, shared_bytes_per_block, shared_bytes_per_sm, registers_per_sm,
                 clock_khz, memory_bandwidth, l2_bandwidth, launch_us, driver_version, pci_address, is_emulator)

SPARSMITH_FIELDS(DeviceSpeeds, memory_bandwidth, l2_bandwidth, launch_us)

void fields(auto& f, OperatorSpec& spec) {
  f.text("name", spec, [](const OperatorSpec& each) { return each.name(); }, OperatorSpec::parse);
  f("rows", spec.rows);
  f("cols", spec.cols);
  f("nnz", spec.nnz);
}

void fields(auto& f, CsrMatrix& matrix) {
  f("rows", matrix.rows);
  f("cols", matrix.cols);
  type_field(f, "data_type", matrix.data_type);
  f.blob(matrix.row_offsets);
  f.blob(matrix.column_indices);
  f.blob(matrix.values);
}

void fields(auto& f, PackedArray& array) {
  f("name", array.name);
  type_field(f, "type", array.type);
  f.blob(array.bytes);
  f.require(array.bytes.size() % size_of(array.type) == 0, "an array ends inside of an element");
}

void fields(auto& f, PackedWeight& packed) {
  f("packing", packed.packing);
  f("packer_version", packed.packer_version);
  f("rows", packed.rows);
  f("cols", packed.cols);
  f("nnz", packed.nnz);
  type_field(f, "value_type", packed.value_type);
  f("facts", packed.facts);
  f("arrays", packed.arrays);
}

void fields(auto& f, KernelImage& kernel) {
  f("name", kernel.name);
  f("source", kernel.source);
  f("max_shared_bytes", kernel.max_shared_bytes);
  f.blob(kernel.cubin);
}

void fields(auto& f, CompiledCandidate& candidate) {
  f.text("plan", candidate.plan, [](const LaunchPlan& plan) { return to_json(plan); }, launch_plan_from_json);
  f("packing", candidate.packing);
  f("kernels", candidate.kernels);
}

void fields(auto& f, TimingPolicy& policy) {
  constexpr int kMost = 1'000'000;
  f("cold_weights", policy.cold_weights);
  f("programmatic", policy.programmatic);
  f("layers", policy.layers);
  f("min_replays", policy.min_replays);
  f("max_milliseconds", policy.max_milliseconds);
  f("limit_us", policy.limit_us);
  f.require(policy.layers <= kMost && policy.min_replays <= kMost, "a timing policy is out of range");
}

SPARSMITH_FIELDS(Timing, median_us, q1_us, q3_us, samples_us, copies, warm, too_slow)

SPARSMITH_FIELDS(Verification, ok, max_error_over_bound, norm_error, reason)

SPARSMITH_FIELDS(VendorTiming, name, supported, detail, broke, slower, timing, own_layout_us, epilogue_left_out,
                 verification, weight_bytes)

// "k1, k2".
std::string kernel_names(const CompiledCandidate& candidate);

// The calls.

struct PropertiesCall {
  static constexpr const char* kName = "properties";
  using Reply = DeviceProperties;
  std::string device;  // only for errors
  std::string doing() const { return "starting on " + device; }
  void fields(auto&) {}
};

// A short probe of the device.
struct SpeedsCall {
  static constexpr const char* kName = "speeds";
  using Reply = DeviceSpeeds;
  std::optional<KernelImage> probe;  // tuner/time/speed_probe.h; without it only the memory bandwidth is measured
  std::string doing() const { return "measuring what the device reaches"; }
  void fields(auto& f) { f("probe", probe); }
};

// Runs the kernel of tuner/compile/known_good_kernel.h and checks its output. An error means that the machine, the
// device or the worker caused the earlier failure.
struct KnownGoodCall {
  static constexpr const char* kName = "known_good";
  using Reply = Done;
  std::optional<KernelImage> kernel;  // without it the call only writes and reads memory
  std::string doing() const { return "running a kernel that is known to be good"; }
  void fields(auto& f) { f("kernel", kernel); }
};

// A kernel for the worker's own use, from reference_kernel.h, device_problem.h or fingerprint.h. The worker has no
// compiler. Without the kernel the CPU does its work.
struct OwnKernelCall {
  static constexpr const char* kName = "own_kernel";
  using Reply = Done;
  KernelImage kernel;
  std::string doing() const { return "loading " + kernel.name; }
  void fields(auto& f) { f("kernel", kernel); }
};

// The weight and operator of later calls. Replaces the last weight and all its packings. Does not use the device.
struct WeightCall {
  static constexpr const char* kName = "weight";
  using Reply = Done;
  Payload<CsrMatrix> matrix;
  OperatorSpec spec;
  std::string doing() const { return "sending the weight"; }
  void fields(auto& f) {
    f("matrix", matrix);
    f("spec", spec);
    f.require(spec.fits(*matrix), "the weight has another shape than the operator");
  }
};

// A packed form of the weight, identified by its `packing`. It stays in the worker's memory until PlacePackingCall or
// until the next PackingCall replaces it.
struct PackingCall {
  static constexpr const char* kName = "packing";
  using Reply = Done;
  Payload<PackedWeight> packed;
  std::string doing() const { return "sending packing " + packed->packing; }
  void fields(auto& f) { f("packed", packed); }
};

// Copies a packing to the device. REQUIRES: `packing` was sent last.
struct PlacePackingCall {
  static constexpr const char* kName = "place_packing";
  using Reply = Done;
  std::string packing;
  std::string doing() const { return "placing packing " + packing; }
  void fields(auto& f) { f("packing", packing); }
};

// Frees the packing's memory. A packing that does not exist is no error.
struct DropPackingCall {
  static constexpr const char* kName = "drop_packing";
  using Reply = Done;
  std::string packing;
  std::string doing() const { return "dropping packing " + packing; }
  void fields(auto& f) { f("packing", packing); }
};

// The N of later calls. Draws X, bias, residual and old Y from `seed`, and computes the fp64 reference and the bounds.
struct TokensCall {
  static constexpr const char* kName = "tokens";
  using Reply = Done;
  std::int64_t tokens = 1;
  std::uint64_t seed = 0;
  std::string doing() const { return fmt::format("drawing inputs for N = {}", tokens); }
  void fields(auto& f) {
    f("tokens", tokens);
    f("seed", seed);
    f.require(tokens >= 0, "tokens is negative");
  }
};

struct VerifyCall {
  static constexpr const char* kName = "verify";
  using Reply = Verification;
  CompiledCandidate candidate;
  std::int64_t run_limit_ms = 0;  // limit of each run (Executor::limit_runs()); 0: none
  std::string doing() const { return "verifying " + kernel_names(candidate); }
  void fields(auto& f) {
    f("candidate", candidate);
    f("run_limit_ms", run_limit_ms);
    f.require(run_limit_ms >= 0, "a limit is negative");
  }
};

// Times candidates, interleaved replay by replay, so that drift affects all in the same way. Returns one Timing for
// each candidate, then for each vendor. REQUIRES: the candidates are verified, or `unverified` is true.
struct TimeCall {
  static constexpr const char* kName = "time";
  using Reply = std::vector<Timing>;
  std::vector<CompiledCandidate> candidates;
  std::vector<std::string> vendors;  // REQUIRES: a VendorCall measured each for this weight and N
  TimingPolicy policy;
  // For ablation builds (generator/ablation.h), whose outputs are wrong on purpose. They are not checked. They use and
  // overwrite the same buffers as the other candidates.
  bool unverified = false;
  std::string doing() const;
  void fields(auto& f) {
    f("candidates", candidates);
    f("vendors", vendors);
    f("policy", policy);
    f("unverified", unverified);
  }
};

// Measures a vendor library on this weight and N, and checks its output against the same reference. An answer with
// VendorTiming::broke is the worker's last: its context is broken.
struct VendorCall {
  static constexpr const char* kName = "vendor";
  using Reply = VendorTiming;
  std::string name;
  TimingPolicy policy;
  std::vector<std::string> without{};  // algorithms to leave out, as VendorTiming::broke and slower name them
  std::string doing() const { return "measuring " + name; }
  void fields(auto& f) {
    f("name", name);
    f("policy", policy);
    f("without", without);
  }
};

using WorkerCall = std::variant<PropertiesCall, SpeedsCall, KnownGoodCall, OwnKernelCall, WeightCall, PackingCall,
                                PlacePackingCall, DropPackingCall, TokensCall, VerifyCall, TimeCall, VendorCall>;
using WorkerReply = std::variant<Done, DeviceProperties, DeviceSpeeds, Verification, std::vector<Timing>, VendorTiming>;

}  // namespace sparsmith
