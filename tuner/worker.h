// The tuner's only way to a device: a worker process that loads, checks and times candidates. What a candidate
// breaks is the worker's; the parent holds no CUDA context and starts another one.
//
// A Worker talks to one child process over a socket; one thread at a time. Calls fail with kDeviceError when the child
// died or stopped answering, with kIoError when others killed it; the object is then of no more use.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "formats/packed_weight.h"
#include "generator/candidate.h"
#include "matrix/csr_matrix.h"
#include "runtime/executor.h"
#include "runtime/operator_spec.h"
#include "tuner/child_channel.h"

namespace sparsmith {

// How a candidate is timed. Part of a choice's key.
struct TimingPolicy {
  bool cold_weights = true;   // rotate over copies of the packed weight that exceed three times L2
  bool programmatic = false;  // launch our kernels programmatically (LaunchPlan), where the device knows that
  int layers = 0;             // launches in one graph, over as many copies where they fit; 0: as many as it takes
  int min_replays = 15;
  double max_milliseconds = 200;  // a candidate at most
  double limit_us = 0;            // what takes longer is too slow, and stopped after its first few launches; 0: nothing
  std::string name() const;       // "cold_weights", "cold_weights_programmatic", "cold_weights_64_layers"
};

struct Timing {
  double median_us = 0;
  double q1_us = 0;
  double q3_us = 0;
  std::vector<float> samples_us;  // one a replay: time of the replay over the launches in it
  int copies = 1;                 // of the weight that were rotated over
  bool too_slow = false;          // over the policy's limit: the only sample is the mean of its first launches
  bool warm = false;              // true where going cold would have taken over 2,000 graph nodes
};

// Outputs against fp64 (see verification.h for the bound).
struct Verification {
  bool ok = false;
  double max_error_over_bound = 0;  // <= 1 when ok
  double norm_error = 0;            // ||y - ref|| / ||ref||
  std::string reason;               // empty when ok: "y[3][17] = nan, expected 0.25 +- 1e-3", "wrote past the end of y"
};

// What a vendor library reached at its best. `name` is "cusparse" (best over algorithms and both layouts,
// preprocessed), or, of a search, "dense".
struct VendorTiming {
  std::string name;
  bool supported = true;
  std::string detail;              // the algorithm that won, or why it is not supported
  Timing timing;                   // of its best, whatever layout of X and Y that takes
  double own_layout_us = 0;        // its best in the operator's layout, by a few samples; 0: there is none
  bool epilogue_left_out = false;  // the product alone was timed, of an operator that has an epilogue
  Verification verification;
  std::int64_t weight_bytes = 0;  // on the GPU
};

// Where a candidate's kernels come from: the candidate plus a binary per kernel.
struct LoadedCandidate {
  LaunchPlan plan;
  std::string packing;
  std::vector<KernelImage> kernels;
};

class Worker {
 public:
  struct Options {
    std::string device = "cuda:0";      // or "emulator"
    std::chrono::seconds timeout{120};  // for one call
    std::string program;                // the worker program; empty: the one installed beside this program
    ChildChannel::InterruptedAt interrupted_at{};
  };
  // Errors: kNoDevice when there is no such device or no worker program; kInvalidArgument for a device that is neither
  // "emulator" nor "cuda:<number>"; kIoError when the machine has no process for it, or others kill it.
  static Result<std::unique_ptr<Worker>> start(const Options& options);
  // Ends the child.
  ~Worker();

  const DeviceProperties& properties() const;

  // Runs a short probe; without NVRTC it measures the memory alone. Error: kUnsupported on the emulator.
  Result<DeviceSpeeds> measure_speeds();

  // Compiles (where it takes a compiler), loads and runs a kernel that is known to be good. An error says that the
  // machine, the device or the worker is at fault for what failed before.
  Status check_known_good();

  // The weight of what follows, and the operator on it. Replaces the last one, with all its packings. The device is not
  // used for it, but for kernels that are loaded with the first one.
  Status set_weight(const CsrMatrix& matrix, const OperatorSpec& spec);
  // A packed form of that weight, known by its `packing`: sent to the worker, which leaves the device alone, and from
  // there to the device.
  Status send_packing(const PackedWeight& packed);
  // REQUIRES: the packing that was sent last.
  Status place_packing(const std::string& name);
  // Both.
  Status add_packing(const PackedWeight& packed);
  // Gives its memory back. One that is not there is dropped already.
  Status drop_packing(const std::string& name);
  // N of what follows: draws X, bias, residual and old Y from `seed`, and computes the fp64 reference and the bounds.
  Status set_tokens(std::int64_t tokens, std::uint64_t seed);

  // What a candidate may take from now on, in verify() and in time(), before the worker is thought to hang; never more
  // than Options::timeout. Nearly all of it is there for the host's work, on a machine that has other things to do: a
  // GPU that is not done with a run of verify() after a tenth of it is thought to hang as well.
  void limit_candidates(std::chrono::milliseconds limit) { candidate_limit_ = limit; }

  Result<Verification> verify(const LoadedCandidate& candidate);
  // REQUIRES: verified.
  Result<Timing> time(const LoadedCandidate& candidate, const TimingPolicy& policy);
  // Times several, interleaved replay by replay, so that drift hits all alike; `vendors` joins by name those
  // that vendor() measured for this weight and N. One Timing for each candidate, then for each vendor.
  Result<std::vector<Timing>> time_interleaved(const std::vector<LoadedCandidate>& candidates,
                                               const std::vector<std::string>& vendors, const TimingPolicy& policy);
  // The same of candidates that nobody has verified: for ablation builds (generator/ablation.h), whose outputs are
  // known to be wrong. They run on the buffers of the others, whose outputs they spoil, and are checked for nothing.
  Result<std::vector<Timing>> time_unverified(const std::vector<LoadedCandidate>& candidates,
                                              const TimingPolicy& policy);
  // Measures a vendor library on this weight and N, checked against the same reference.
  Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy);

 private:
  class Channel;
  explicit Worker(std::unique_ptr<Channel> channel);
  // On a GPU, the fp64 reference is a kernel, compiled here: the worker has no compiler.
  Status send_reference_kernel(DataType type);
  Status send_output_comparison_kernel(DataType type);
  Status send_fingerprint_kernel();

  std::unique_ptr<Channel> channel_;
  DeviceProperties properties_;
  std::chrono::milliseconds candidate_limit_ = std::chrono::hours(24);
  std::set<DataType> reference_kernels_;          // sent, or not to be had
  std::set<DataType> output_comparison_kernels_;  // likewise, as the next
  bool fingerprint_kernel_ = false;
};

}  // namespace sparsmith
