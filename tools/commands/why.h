// `sparsmith show --why`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <utility>
#include <vector>

#include "runtime/tuned_file.h"
#include "search/explain/explanation.h"

namespace sparsmith::tools {

struct ExplainedChoice {
  const TunedChoice* choice = nullptr;
  Explanation explanation;
  bool has_measurements = false;  // the cache has the tried candidates
  OperatorKind kind = OperatorKind::kSpmm;
};

// Explains each choice (for `tokens`; 0: all), with the measurements from the cache at `cache` (empty: the default
// cache, if it exists). Errors: errors of a named cache; kUnsupported when this build knows none of the weight's
// packings.
Result<std::vector<ExplainedChoice>> explained_choices(const TunedContents& contents, const TunedWeight& weight,
                                                       std::int64_t tokens, const std::string& cache);

void print_why(const ExplainedChoice& explained);
nlohmann::json why_json(const Explanation& explanation);

}  // namespace sparsmith::tools
