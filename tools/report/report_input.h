// The input of `sparsmith report`: JSON from this program and from bench/cells.py.
#pragma once

#include <string>
#include <string_view>

#include "sparsmith/status.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// Adds the results in `text` to `inputs`. The keys identify the kind:
//   {"weights": [...]}                       of `analyze --json`
//   {"device": ..., "weights": [...]}        of `tune --json` and `bench --json`
//   {"tokens": ..., "timing": ...} a line    of bench/cells.py
//   {"history": [...]}                       performance over commits (docs/guide/report.md)
// Optional keys may be missing, and unknown keys are ignored. `name`: the file's name in messages and titles.
//   Error: kInvalidInput with the place; `inputs` is then unchanged.
Status add_report_json(std::string_view text, const std::string& name, ReportInputs& inputs);

}  // namespace sparsmith::tools
