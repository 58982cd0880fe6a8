// `sparsmith show --why`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <utility>
#include <vector>

#include "runtime/tuned_file.h"
#include "search/explanation.h"

namespace sparsmith::tools {

struct ExplainedChoice {
  const TunedChoice* choice = nullptr;
  Explanation explanation;
  bool has_measurements = false;  // a cache knew what was tried
  OperatorKind kind = OperatorKind::kSpmm;
};

// Of each choice (for `tokens`; 0: all), with what the cache at `cache` measured; empty: the default one, where it is
// there. Errors: those of a cache that was named; kUnsupported when this build knows none of the weight's packings.
Result<std::vector<ExplainedChoice>> explained_choices(const TunedContents& contents, const TunedWeight& weight,
                                                       std::int64_t tokens, const std::string& cache);

void print_why(const ExplainedChoice& explained);
nlohmann::json why_json(const Explanation& explanation);

}  // namespace sparsmith::tools
