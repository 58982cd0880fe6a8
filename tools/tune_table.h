// A tuning run for people: the table of choices, the whole model, and what was counted and rejected.
#pragma once

#include <string>

#include "runtime/tuned_file.h"
#include "search/tune_report.h"

namespace sparsmith::tools {

// "rows v4 s8 b128": the family, and each parameter that is not at its first value.
std::string short_config(const Config& config);
// The same of a config's text; a text that is none stays as it is.
std::string short_config(const std::string& text);

// " (sddmm)", where the weight has several operators.
std::string operator_note(const WeightResult& weight, const BucketChoice& bucket);

// Of the packing that the choice reads.
std::string gpu_bytes_text(const WeightResult& weight, const BucketChoice& bucket);

std::string choices_table(const TuneReport& report);
// GPU bytes, and time of one pass over all weights for each N, dense against tuned.
std::string model_summary(const TuneReport& report);
// Counts, rejections by reason, skipped tensors.
std::string run_summary(const TuneReport& report);

std::string human_bytes(double bytes);

}  // namespace sparsmith::tools
