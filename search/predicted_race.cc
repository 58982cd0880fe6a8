#include "search/predicted_race.h"

#include "search/device_search.h"
#include "search/packings.h"
#include "tuner/environment_fault.h"

namespace sparsmith {
namespace {

constexpr int kWanted = 2;  // that pass: the choice, and one to compare it with

bool compiles(const TuneContext& context, Contender& contender) {
  if (context.kernels->nvrtc_version().empty()) return true;
  const Candidate* candidate = &contender.candidate;
  context.kernels->ensure({&candidate, 1}, KernelStore::Urgency::kNow);
  const Status status = attach_binaries(*context.kernels, context.device, contender);
  if (status.ok()) return true;
  contender.state = Contender::State::kRejected;
  contender.status = MeasurementStatus::kFailed;
  contender.reason = status.message();
  contender.unjudged = is_environment_fault(status);
  return false;
}

}  // namespace

Status run_predicted_race(const TuneContext& context, MeasurementLog& log, std::vector<Contender>& contenders) {
  int passed = 0;
  for (Contender& contender : contenders) {
    if (passed == kWanted || (passed > 0 && (context.interrupted() || context.out_of_time()))) break;
    if (context.progress) context.progress("verify", static_cast<std::size_t>(passed), kWanted);
    if (contender.state != Contender::State::kWaiting) continue;
    log.begin(contender.identity);
    const bool ok = compiles(context, contender) && verify_contender(*context.session, contender);
    SPARSMITH_RETURN_IF_ERROR(context.kernels->health());
    SPARSMITH_RETURN_IF_ERROR(context.session->health());
    if (ok) {
      contender.state = Contender::State::kTimed;
      contender.status = MeasurementStatus::kOk;
      const double us = contender.candidate.predicted_us;
      contender.timing.median_us = contender.timing.q1_us = contender.timing.q3_us = us;
      ++passed;
    }
    log.finish(contender.status, contender.reason, contender.timing, contender.verification.max_error_over_bound,
               contender.unjudged);
  }
  return {};
}

}  // namespace sparsmith
