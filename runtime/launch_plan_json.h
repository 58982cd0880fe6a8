// Launch plans as JSON trees, for files that hold plans among other things. Internal.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/launch_plan.h"

namespace sparsmith {

nlohmann::ordered_json json_of(const LaunchPlan& plan);
// Error: kInvalidInput with the place in the plan. REQUIRES: the tree is as shallow as those of parse_json().
Result<LaunchPlan> launch_plan_from(const nlohmann::json& json);

}  // namespace sparsmith
