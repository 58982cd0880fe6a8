// Launch plans as JSON trees, for files that also hold other data. Internal.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/launch_plan.h"

namespace sparsmith {

nlohmann::ordered_json json_of(const LaunchPlan& plan);
// Error: kInvalidInput with the place in the plan. REQUIRES: the tree is not deeper than parse_json() permits.
Result<LaunchPlan> launch_plan_from(const nlohmann::json& json);

}  // namespace sparsmith
