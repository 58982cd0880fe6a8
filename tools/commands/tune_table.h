// A tuning run as text: the table of choices, the summary of the model, counts and rejections.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tuned_file.h"
#include "search/choice/tune_report.h"
#include "tools/report/table.h"

namespace sparsmith::tools {

// "rows v4 s8 b128": the family, and each parameter that does not have its first value.
std::string short_config(const Config& config);
// The same for a config's text. A text that is no config is returned unchanged.
std::string short_config(const std::string& text);
// The family of a config as users know it: "dense tiles" for bsr that stores every block.
std::string family_title(const Config& config);
// "slots: columns delta4, vector width 8, ...": every parameter by its name, with the name of its value.
std::string readable_config(const std::string& text);

// " (sddmm)" when the weight has several operators; else empty.
std::string operator_note(const WeightResult& weight, const BucketChoice& bucket);

// A table with a row for each choice: the cells from the weight to the time, and then the cells from `further`.
using FurtherCells = std::function<std::vector<std::string>(const WeightResult&, const BucketChoice&)>;
Table choice_table(const TuneReport& report, const std::vector<std::string>& columns, const FurtherCells& further);

std::string choices_table(const TuneReport& report);
// A row for the layers that share a shape and, but for numbers, a name: their sums at each N.
std::string folded_table(const TuneReport& report);
// Time of one call of each weight at each N, and GPU bytes, dense against tuned; where dense kernels stay, and what
// runs above the largest N.
std::string model_summary(const TuneReport& report);
// The end of the output of a run for training: times of a step, and bytes.
std::string training_text(const TrainingUse& use);
// Counts, and skipped tensors; in full, times of the stages and rejections by reason.
std::string run_summary(const TuneReport& report, bool full);

// Tensors by name and reason: a line each for a few or in full, otherwise one line with counts by reason.
std::string skipped_text(const std::vector<std::pair<std::string, std::string>>& skipped, bool full);

}  // namespace sparsmith::tools
