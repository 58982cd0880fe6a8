#include "tuner/vendor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"

namespace sparsmith {
namespace {

// kUnsupported where it runs and computes something else.
Result<Verification> verify(VendorProblem& problem, VendorWork& work) {
  GpuExecutor& executor = problem.executor();
  SPARSMITH_RETURN_IF_ERROR(problem.poison(work.layout()));
  SPARSMITH_RETURN_IF_ERROR(work.make_copies(1));
  SPARSMITH_RETURN_IF_ERROR(work.enqueue(executor.stream(), 0));
  const CudaDriver& driver = problem.driver();
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.StreamSynchronize(executor.stream()), work.detail()));
  SPARSMITH_ASSIGN_OR_RETURN(Verification verification, problem.verify(work.layout()));
  // Not <=: a NaN is wrong.
  if (!(verification.norm_error <= norm_error_limit(problem.spec().type)))
    return unsupported(work.detail() + ": its output is wrong: " + verification.reason);
  return verification;
}

// Microseconds of `work` by a few replays. Where launches of one copy, whose weight is warm and which may wait for
// their submission, are still far slower than `best_us`: by these alone.
Result<double> time_briefly(GpuTimer& timer, VendorWork& work, const TimingPolicy& policy, double best_us) {
  constexpr double kTimesSlower = 4;
  constexpr double kSubmission = 50;  // microseconds
  SPARSMITH_RETURN_IF_ERROR(work.make_copies(1));
  SPARSMITH_ASSIGN_OR_RETURN(const double launch_us, timer.time_launches(work, 1));
  if (launch_us > kTimesSlower * best_us + kSubmission) return launch_us;
  TimingPolicy brief = policy;
  brief.min_replays = 3;
  brief.max_milliseconds = std::min(policy.max_milliseconds, 20.0);
  TimedWork* const one[] = {&work};
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Timing> timings, timer.time(one, brief));
  return timings.front().median_us;
}

std::string detail_of(const VendorProblem& problem, const VendorWork& work, const Verification& verification) {
  std::string detail = work.detail();
  if (!verification.ok)
    detail += fmt::format(", norm error {:.2g} ({:.1f} times the bound of our kernels)", verification.norm_error,
                          verification.max_error_over_bound);
  if (problem.epilogue_left_out()) detail += ", without the epilogue";
  return detail;
}

}  // namespace

Result<BestVendorWork> best_work(GpuTimer& timer, VendorProblem& problem,
                                 std::vector<std::unique_ptr<VendorWork>> works, const TimingPolicy& policy) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  BestVendorWork best;
  double best_us = kNone;
  double own_layout_us = kNone;
  Status refused = unsupported("there is no algorithm for this problem");
  for (std::unique_ptr<VendorWork>& each : works) {
    std::unique_ptr<VendorWork> work = std::move(each);  // a loser's copies of the weight make room
    const Layout layout = work->layout();
    const Result<double> us = time_briefly(timer, *work, policy, best_us);
    if (!us.ok()) {
      log_debug("{}: {}", work->detail(), us.status().to_string());
      refused = us.status();
      continue;
    }
    if (*us < best_us) {
      Result<Verification> verification = verify(problem, *work);
      if (!verification.ok()) {
        log_debug("{}", verification.status().to_string());
        refused = verification.status();
        continue;
      }
      best.work = std::move(work);
      best.timing.verification = *std::move(verification);
      best_us = *us;
    }
    if (layout == problem.spec().layout) own_layout_us = std::min(own_layout_us, *us);
  }
  if (best.work == nullptr) return unsupported(refused.message());
  TimedWork* const one[] = {best.work.get()};
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<Timing> timings, timer.time(one, policy));
  best.timing.timing = std::move(timings.front());
  best.timing.epilogue_left_out = problem.epilogue_left_out();
  best.timing.own_layout_us = own_layout_us < kNone ? own_layout_us : 0;
  best.timing.weight_bytes = best.work->bytes_on_gpu();
  best.timing.detail = detail_of(problem, *best.work, best.timing.verification);
  return best;
}

}  // namespace sparsmith
