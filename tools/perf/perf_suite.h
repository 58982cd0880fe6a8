// Runs a suite: tunes every weight once, then measures it round by round.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "history/recording.h"
#include "history/suite.h"
#include "tools/commands/tune_settings.h"

namespace sparsmith::tools {

struct SuiteRun {
  std::string folder;           // files of the suite are relative to it
  std::string cache;            // empty: a temporary cache for this run, without earlier results
  bool keep_choices = false;    // keep choices of the cache when their code changed: compares kernels, not searches
  std::set<std::string> cases;  // names of cases; empty: every case
  // Tunes, and measures the choices: measure_once(), or a replacement in tests.
  std::function<Result<Recording>(const TuneSettings&)> measure;
  // Called once per round for each file or drawn weight and type; false ends its measurement.
  std::function<Result<bool>(int round, Recording recording)> record;
};

// Errors: errors of reading weights, of `measure` and of `record`; kInvalidInput when no case of the suite has a name
// in `cases`.
Status run_suite(const Suite& suite, const SuiteRun& run);

// A run of the tuner as a recording. Error: kNoDevice when times are predicted, not measured; kIoError after an
// interrupt.
Result<Recording> measure_once(const TuneSettings& settings);

}  // namespace sparsmith::tools
