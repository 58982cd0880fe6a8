// A comparison of two commits for people, pull requests, programs and build servers.
#pragma once

#include <string>
#include <vector>

#include "history/comparison.h"

namespace sparsmith::tools {

// "1 SLOW, 0 FAST, 2 AMBIGUOUS (1 to be measured again), 15 SAME"
std::string comparison_headline(const Comparison& comparison);
// The mean over all cases, the noise, and cases of one side alone: a line each.
std::vector<std::string> comparison_footnotes(const Comparison& comparison);
// What is said of a case besides its row: why, what differs, and how to see it again; a line each.
std::vector<std::string> comparison_details(const ComparisonRow& row);

// `all`: also the cases that are the same.
std::string comparison_text(const Comparison& comparison, bool all);
std::string comparison_markdown(const Comparison& comparison, bool all);
// {"base","head","counts":{...},"geometric_mean","rows":[{...}],...}, one line.
std::string comparison_json(const Comparison& comparison);
// A test case each: SLOW is a failure unless accepted, AMBIGUOUS is skipped.
std::string comparison_junit(const Comparison& comparison);

}  // namespace sparsmith::tools
