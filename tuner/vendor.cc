#include "tuner/vendor.h"

#include <fmt/format.h>

#include "base/log.h"

namespace sparsmith {
namespace {

Result<Verification> verify(VendorProblem& problem, VendorWork& work) {
  GpuExecutor& executor = problem.executor();
  SPARSMITH_RETURN_IF_ERROR(problem.poison(work.layout()));
  SPARSMITH_RETURN_IF_ERROR(work.make_copies(1));
  SPARSMITH_RETURN_IF_ERROR(work.enqueue(executor.stream(), 0));
  const CudaDriver& driver = problem.driver();
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.StreamSynchronize(executor.stream()), work.detail()));
  return problem.verify(work.layout());
}

}  // namespace

Result<BestVendorWork> best_work(GpuTimer& timer, VendorProblem& problem,
                                 std::vector<std::unique_ptr<VendorWork>> works, const TimingPolicy& policy) {
  TimingPolicy brief = policy;
  brief.min_replays = 3;
  brief.max_milliseconds = std::min(policy.max_milliseconds, 20.0);
  std::unique_ptr<VendorWork> best;
  double best_us = 0;
  Status refused = unsupported("there is no algorithm for this problem");
  for (std::unique_ptr<VendorWork>& work : works) {
    TimedWork* const one[] = {work.get()};
    const Result<std::vector<Timing>> timings = timer.time(one, brief);
    if (!timings.ok()) {
      log_debug("{}: {}", work->detail(), timings.status().to_string());
      refused = timings.status();
    } else if (best == nullptr || timings->front().median_us < best_us) {
      best = std::move(work);
      best_us = timings->front().median_us;
    }
    work.reset();  // a loser's copies of the weight make room
  }
  if (best == nullptr) return unsupported(refused.message());

  BestVendorWork result;
  SPARSMITH_ASSIGN_OR_RETURN(result.timing.verification, verify(problem, *best));
  TimedWork* const one[] = {best.get()};
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<Timing> timings, timer.time(one, policy));
  result.timing.timing = std::move(timings.front());
  result.timing.weight_bytes = best->bytes_on_gpu();
  result.timing.detail = best->detail();
  if (problem.epilogue_left_out()) result.timing.detail += ", without the epilogue";
  result.work = std::move(best);
  return result;
}

}  // namespace sparsmith
