// A vendor library, opened at run time, as a source of baselines.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/gpu_timer.h"
#include "tuner/timed_work.h"
#include "tuner/vendor_problem.h"

namespace sparsmith {

// One way in which a library computes a problem: an algorithm, an order of the operands.
class VendorWork : public TimedWork {
 public:
  // A library does not say how many kernels a call takes. Counted as one, vendors go warm where candidates do.
  int nodes() const override { return 1; }

  virtual std::string detail() const = 0;         // "CSR_ALG2, X row-major"
  virtual Layout layout() const = 0;              // of the X it reads and the Y it writes
  virtual std::int64_t bytes_on_gpu() const = 0;  // of the weight, with what preprocessing adds
};

// Holds the library's handle, and a weight on the GPU between problems. One thread at a time, with the GPU's context
// current.
class Vendor {
 public:
  virtual ~Vendor() = default;

  // Every way to compute `problem`, which outlives them. Error: kUnsupported where there is none.
  virtual Result<std::vector<std::unique_ptr<VendorWork>>> works(VendorProblem& problem) = 0;

  // The weight that follows is another one.
  virtual void forget_weight() = 0;
};

// Error: kNoDevice when the library is missing.
Result<std::unique_ptr<Vendor>> open_cusparse(GpuExecutor& executor);

// The fastest of `works` whose output is right (norm_error_limit), with its time under `policy`. Each is tried for
// three replays; those that fail to run are left out. Error: kUnsupported when none is left.
struct BestVendorWork {
  std::unique_ptr<VendorWork> work;
  VendorTiming timing;
};
Result<BestVendorWork> best_work(GpuTimer& timer, VendorProblem& problem,
                                 std::vector<std::unique_ptr<VendorWork>> works, const TimingPolicy& policy);

}  // namespace sparsmith
