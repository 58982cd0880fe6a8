// A comparison of two commits as text, Markdown for pull requests, JSON, and JUnit for build servers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "history/comparison.h"

namespace sparsmith::tools {

// "SLOW", "FAST (accepted)".
std::string verdict_text(const ComparisonRow& row);

// "1 SLOW, 0 FAST, 2 AMBIGUOUS (1 to be measured again), 15 SAME"
std::string comparison_headline(const Comparison& comparison);
// The mean over all cases, the noise, and the cases of only one side: one line each.
std::vector<std::string> comparison_footnotes(const Comparison& comparison);
// Details of a case: the reason, the differences, and the command to reproduce it; one line each.
std::vector<std::string> comparison_details(const ComparisonRow& row);

// `all`: also the cases with verdict SAME.
std::string comparison_text(const Comparison& comparison, bool all);
std::string comparison_markdown(const Comparison& comparison, bool all);
// {"base","head","counts":{...},"geometric_mean","rows":[{...}],...}
nlohmann::json comparison_json(const Comparison& comparison);
// One test case for each row: SLOW is a failure unless accepted, AMBIGUOUS is skipped.
std::string comparison_junit(const Comparison& comparison);

}  // namespace sparsmith::tools
