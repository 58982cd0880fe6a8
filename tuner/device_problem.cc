#include "tuner/device_problem.h"

#include <utility>
#include <vector>

namespace sparsmith {

Result<std::unique_ptr<DeviceProblem>> DeviceProblem::upload(Executor& executor, const ReferenceProblem& problem,
                                                             const PoisonedInput& poisoned,
                                                             Fingerprinter& fingerprinter) {
  SPARSMITH_ASSIGN_OR_RETURN(OutputComparison comparison, OutputComparison::create(executor, problem));
  std::unique_ptr<DeviceProblem> made(new DeviceProblem(executor, std::move(comparison), poisoned, fingerprinter));
  const auto holding = [&executor](std::span<const std::byte> bytes) {
    return DeviceAllocation::holding(executor, bytes);
  };
  SPARSMITH_ASSIGN_OR_RETURN(made->x_, holding(problem.x().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(made->poisoned_x_, holding(poisoned.x.bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(made->effects_, holding(std::as_bytes(std::span(poisoned.effects))));
  if (problem.spec().epilogue.beta) {
    SPARSMITH_ASSIGN_OR_RETURN(made->old_output_, holding(problem.initial_output().bytes()));
  }
  SPARSMITH_ASSIGN_OR_RETURN(made->fingerprint_, made->fingerprint());
  return made;
}

Result<std::uint64_t> DeviceProblem::fingerprint() const {
  std::vector<Fingerprinter::Range> ranges;
  for (const DeviceAllocation* array : {&comparison_.values(), &comparison_.bounds(), &comparison_.looked_at(), &x_,
                                        &poisoned_x_, &effects_, &old_output_})
    ranges.push_back({array->address(), array->bytes()});
  return fingerprinter_.of(ranges);
}

Result<bool> DeviceProblem::is_intact() const {
  SPARSMITH_ASSIGN_OR_RETURN(const std::uint64_t now, fingerprint());
  return now == fingerprint_;
}

Status DeviceProblem::restore_x(DeviceAddress x, bool poisoned) const {
  const DeviceAllocation& from = poisoned ? poisoned_x_ : x_;
  return executor_.copy(x, from.address(), from.bytes());
}

Status DeviceProblem::restore_output(DeviceAddress output) const {
  return executor_.copy(output, old_output_.address(), old_output_.bytes());
}

Result<Verification> DeviceProblem::verify(DeviceAddress output, Layout layout, bool poisoned) const {
  return poisoned ? comparison_.verify(output, layout, &poisoned_, effects_.address())
                  : comparison_.verify(output, layout);
}

}  // namespace sparsmith
