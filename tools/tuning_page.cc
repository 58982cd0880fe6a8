#include "tools/tuning_page.h"

#include "base/file.h"
#include "tools/report/report_input.h"
#include "tools/report/report_page.h"
#include "tools/tune_json.h"

namespace sparsmith::tools {

Status write_tuning_page(const std::string& path, const TuneOutcome& outcome, const std::string& file) {
  ReportInputs inputs;
  SPARSMITH_RETURN_IF_ERROR(add_report_json(json_text(outcome), file, inputs));
  return write_file_atomically(path, html_of(report_page("Tuning of " + file, inputs)));
}

}  // namespace sparsmith::tools
