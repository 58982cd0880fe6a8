// A comparison of two commits for people, pull requests, programs and build servers.
#pragma once

#include <string>

#include "history/comparison.h"

namespace sparsmith::tools {

// `all`: also the cases that are the same.
std::string comparison_text(const Comparison& comparison, bool all);
std::string comparison_markdown(const Comparison& comparison, bool all);
// {"base","head","counts":{...},"geometric_mean","rows":[{...}],...}, one line.
std::string comparison_json(const Comparison& comparison);
// A test case each: SLOW is a failure unless accepted, AMBIGUOUS is skipped.
std::string comparison_junit(const Comparison& comparison);

}  // namespace sparsmith::tools
