#include "search/predicted_race.h"

#include "search/device_search.h"
#include "search/packings.h"
#include "tuner/environment_fault.h"

namespace sparsmith {
namespace {

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

Status verify_predicted(const TuneContext& context, MeasurementLog& log, Contender& contender) {
  if (context.progress) context.progress("verify", 0, 1);
  log.begin(contender.identity);
  const bool ok = compiles(context, contender) && verify_contender(*context.session, contender);
  SPARSMITH_RETURN_IF_ERROR(context.kernels->health());
  SPARSMITH_RETURN_IF_ERROR(context.session->health());
  if (ok) {
    contender.state = Contender::State::kTimed;
    contender.status = MeasurementStatus::kOk;
    const double us = contender.candidate.predicted_us;
    contender.timing.median_us = contender.timing.q1_us = contender.timing.q3_us = us;
  }
  log.finish(contender.status, contender.reason, contender.timing, contender.verification.max_error_over_bound,
             contender.unjudged);
  return {};
}

}  // namespace sparsmith
