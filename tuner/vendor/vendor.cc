#include "tuner/vendor/vendor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/parallel_for.h"

namespace sparsmith {
namespace {

// The index of element (feature, token) in an array of `features` x `tokens` without padding.
std::int64_t index_in(Layout layout, std::int64_t features, std::int64_t tokens, std::int64_t feature,
                      std::int64_t token) {
  return layout == Layout::kTokenMajor ? token * features + feature : feature * tokens + token;
}

Status enqueue_once(const GpuExecutor& executor, VendorWork& work) {
  SPARSMITH_RETURN_IF_ERROR(work.make_copies(1));
  return work.enqueue(executor.stream(), 0);
}

// Whether what was enqueued ends within `limit`, well or not. Otherwise nothing else does.
bool ends_within(std::chrono::milliseconds limit, const GpuExecutor& executor) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (executor.driver().StreamQuery(executor.stream()) == CUDA_ERROR_NOT_READY) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

// Runs `work` and checks its output. Error: kUnsupported when the output is wrong.
Result<Verification> verify(VendorProblem& problem, VendorWork& work) {
  GpuExecutor& executor = problem.executor();
  SPARSMITH_RETURN_IF_ERROR(problem.poison(work.layout()));
  SPARSMITH_RETURN_IF_ERROR(work.make_copies(1));
  SPARSMITH_RETURN_IF_ERROR(work.enqueue(executor.stream(), 0));
  const CudaDriver& driver = executor.driver();
  SPARSMITH_RETURN_IF_ERROR(driver.check(driver.StreamSynchronize(executor.stream()), work.detail()));
  SPARSMITH_ASSIGN_OR_RETURN(Verification verification, problem.verify(work.layout()));
  // Not <=: a NaN is wrong.
  if (!(verification.norm_error <= norm_error_limit(problem.plain().spec().type)))
    return unsupported(work.detail() + ": its output is wrong: " + verification.reason);
  return verification;
}

// Microseconds of `work`, from a few replays. First a few launches of one copy are timed; there the weight is warm, and
// launches may wait for their submission. When these are far slower than `best_us`, their time is the result.
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

// Whether a kernel failed, after which all calls fail.
bool is_broken(const GpuExecutor& executor) {
  return executor.driver().StreamSynchronize(executor.stream()) != CUDA_SUCCESS;
}

BestVendorWork broken_by(const VendorWork& work, const Status& status, std::vector<std::string> slower) {
  BestVendorWork none;
  none.timing.slower = std::move(slower);
  none.timing.supported = false;
  none.timing.broke = work.detail();
  none.timing.detail = work.detail() + ": " + status.message();
  return none;
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

VendorProblem::VendorProblem(GpuExecutor& executor, const ReferenceProblem& problem, PlanVerifier* verifier)
    : executor_(executor),
      plain_(&problem),
      epilogue_left_out_(problem.spec().epilogue != Epilogue{}),
      verifier_(epilogue_left_out_ ? nullptr : verifier) {
  if (!epilogue_left_out_) return;
  OperatorSpec spec = problem.spec();
  spec.epilogue = {};
  own_.emplace(problem.matrix(), spec, problem.options(), problem.shared_values());
  own_->set_sums(problem.sums());
  plain_ = &*own_;
}

Result<std::unique_ptr<VendorProblem>> VendorProblem::create(GpuExecutor& executor, const ReferenceProblem& problem,
                                                             PlanVerifier* verifier) {
  if (!problem.has_reference()) return internal_error("a vendor was to be measured without a reference");
  std::unique_ptr<VendorProblem> vendor_problem(new VendorProblem(executor, problem, verifier));
  SPARSMITH_RETURN_IF_ERROR(vendor_problem->activations(problem.spec().layout).status());
  return vendor_problem;
}

Result<const VendorProblem::Activations*> VendorProblem::activations(Layout layout) {
  std::unique_ptr<Activations>& slot = by_layout_[layout == Layout::kTokenMajor ? 0 : 1];
  if (slot != nullptr) return slot.get();
  const auto& [rows, cols, type] = std::tie(plain_->spec().rows, plain_->spec().cols, plain_->spec().type);
  const std::int64_t tokens = plain_->tokens();
  ElementBuffer x(type, cols * tokens);
  const auto turn = [&](std::int64_t column) {
    for (std::int64_t token = 0; token < tokens; ++token)
      x.set(index_in(layout, cols, tokens, column, token), plain_->x().get(plain_->x_index(column, token)));
  };
  parallel_each(cols, turn, grain_of_rows(tokens));
  auto made = std::make_unique<Activations>();
  SPARSMITH_ASSIGN_OR_RETURN(made->x, DeviceAllocation::holding(executor_, x.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(made->y, DeviceAllocation::make(executor_, size_of(type) * rows * tokens));
  slot = std::move(made);
  return slot.get();
}

Status VendorProblem::poison(Layout layout) {
  SPARSMITH_ASSIGN_OR_RETURN(const Activations* const found, activations(layout));
  return executor_.fill(found->y.address(), std::byte{0xFF}, found->y.bytes());
}

Result<Verification> VendorProblem::verify(Layout layout) {
  SPARSMITH_ASSIGN_OR_RETURN(const Activations* const found, activations(layout));
  if (verifier_ != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(std::optional<Verification> compared, verifier_->compare(found->y.address(), layout));
    if (compared) return *std::move(compared);
  }
  const std::int64_t rows = plain_->spec().rows;
  const std::int64_t tokens = plain_->tokens();
  ElementBuffer raw(plain_->spec().type, rows * tokens);
  SPARSMITH_RETURN_IF_ERROR(executor_.read(raw.bytes(), found->y.address()));
  ElementBuffer y = plain_->initial_output();
  const auto turn = [&](std::int64_t row) {
    for (std::int64_t token = 0; token < tokens; ++token)
      y.set(plain_->index_in("y", row, token), raw.get(index_in(layout, rows, tokens, row, token)));
  };
  parallel_each(rows, turn, grain_of_rows(tokens));
  return verify_outputs(*plain_, y.bytes());
}

Result<BestVendorWork> best_work(GpuTimer& timer, VendorProblem& problem,
                                 std::vector<std::unique_ptr<VendorWork>> works, const TimingPolicy& policy,
                                 std::chrono::milliseconds limit) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  BestVendorWork best;
  double best_us = kNone;
  double own_layout_us = kNone;
  std::vector<std::string> slower;
  Status refused = unsupported("there is no algorithm for this problem");
  for (std::unique_ptr<VendorWork>& each : works) {
    std::unique_ptr<VendorWork> work = std::move(each);  // a loser's copies of the weight make room
    const Layout layout = work->layout();
    log_debug("trying {}", work->detail());
    const Status enqueued = enqueue_once(problem.executor(), *work);
    if (!ends_within(limit, problem.executor()))
      return broken_by(*work, device_error(fmt::format("the device gave no answer within {} ms", limit.count())),
                       std::move(slower));
    const Result<double> us = enqueued.ok() ? time_briefly(timer, *work, policy, best_us) : Result<double>(enqueued);
    if (!us.ok()) {
      log_debug("{}: {}", work->detail(), us.status().to_string());
      refused = us.status();
      if (is_broken(problem.executor())) return broken_by(*work, refused, std::move(slower));
      slower.push_back(work->detail());
      continue;
    }
    if (*us < best_us) {
      Result<Verification> verification = verify(problem, *work);
      if (!verification.ok()) {
        log_debug("{}", verification.status().to_string());
        refused = verification.status();
        slower.push_back(work->detail());
        continue;
      }
      if (best.work != nullptr) slower.push_back(best.work->detail());
      best.work = std::move(work);
      best.timing.verification = *std::move(verification);
      best_us = *us;
    } else {
      slower.push_back(work->detail());
    }
    if (layout == problem.plain().spec().layout) own_layout_us = std::min(own_layout_us, *us);
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
