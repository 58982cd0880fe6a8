// Whether the plans of a tuned file can be launched at all, known before any driver is opened. Internal.
#pragma once

#include "runtime/cubin_parameters.h"
#include "runtime/launch_plan.h"
#include "runtime/tuned_file.h"

namespace sparsmith {

// Ok when the step's arguments are as many and as large as the kernel's parameters. Error: kInvalidInput.
Status check_arguments(const PlanStep& step, const CubinParameters& kernel);

// Ok when every cubin states its kernel's parameters, every launch passes exactly these, and every size, offset and
// zero step is within its limits for each number of tokens that is looked at: the least and the largest of each bucket,
// and the first one above the largest bucket. Others are looked at when they are run (plan_sizes.h).
//   REQUIRES contents.validate(). Error: kInvalidInput, naming the weight, the choice and the kernel.
Status check_plans(const TunedContents& contents);

}  // namespace sparsmith
