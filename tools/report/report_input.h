// What `sparsmith report` reads: JSON that this program and bench/cells.py write.
#pragma once

#include <string>
#include <string_view>

#include "sparsmith/status.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// Adds what `text` holds to `inputs`. It is told apart by its keys:
//   {"weights": [...]}                       of `analyze --json`
//   {"device": ..., "weights": [...]}        of `tune --json` and `bench --json`
//   {"tokens": ..., "timing": ...} a line    of bench/cells.py
//   {"history": [...]}                       performance over commits (docs/report.md)
// Keys that are not needed may be missing, and unknown ones are passed over. `name`: of the file, in messages and
// titles.
//   Error: kInvalidInput with the place of what is wrong; `inputs` then stays as it is.
Status add_report_json(std::string_view text, const std::string& name, ReportInputs& inputs);

}  // namespace sparsmith::tools
