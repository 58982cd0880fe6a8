// Checks whether the plans of a tuned file can be launched. Needs no driver. Internal.
#pragma once

#include "runtime/cubin_parameters.h"
#include "runtime/launch_plan.h"
#include "runtime/tuned_file.h"

namespace sparsmith {

// Ok when the step's arguments match the kernel's parameters in number and size. Error: kInvalidInput.
Status check_arguments(const PlanStep& step, const CubinParameters& kernel);

// Ok when every cubin states its kernel's parameters, every launch passes exactly these, and every size, offset and
// zero step is within its limits. Sizes are checked for some numbers of tokens: the smallest and the largest of each
// bucket, and the first above the largest bucket. Each run checks its own number (plan_sizes.h).
//   REQUIRES: contents.validate() is ok. Error: kInvalidInput, which names the weight, the choice and the kernel.
Status check_plans(const TunedContents& contents);

}  // namespace sparsmith
