#include "tools/perf_suite.h"
#include "tools/tune_json.h"

namespace sparsmith::tools {

Result<Recording> measure_once(const TuneSettings& settings) {
  SPARSMITH_ASSIGN_OR_RETURN(const TuneOutcome outcome, run_tuning(settings, true));
  if (!outcome.report.measured && !outcome.report.weights.empty()) {
    const bool noted = !outcome.device_note.empty();
    return no_device("times are predicted here, and predictions are not recorded: " +
                     (noted ? outcome.device_note : "the emulator measures nothing"));
  }
  if (outcome.report.interrupted) return io_error("interrupted; the rounds before are recorded");
  return parse_bench_json(json_text(outcome));
}

}  // namespace sparsmith::tools
