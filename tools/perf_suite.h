// Runs a suite: every weight of it tuned once, then measured round by round.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "history/recording.h"
#include "history/suite.h"
#include "tools/tune_settings.h"

namespace sparsmith::tools {

struct SuiteRun {
  std::string folder;           // that files of the suite are relative to
  std::string cache;            // empty: one that lasts for the run, so that nothing earlier decides
  bool keep_choices = false;    // of that cache, though their code has changed: kernels are compared, not searches
  std::set<std::string> cases;  // names; empty: every one
  // Tunes, and measures what was chosen: measure_once(), or what stands for it in tests.
  std::function<Result<Recording>(const TuneSettings&)> measure;
  // Called once a round, for each file or drawn weight and type; false ends its measurement.
  std::function<Result<bool>(int round, Recording recording)> record;
};

// Errors: of reading weights, of measure and of record; kInvalidInput when no case of the suite has a name that was
// asked for.
Status run_suite(const Suite& suite, const SuiteRun& run);

// A run of the tuner as a recording. Error: kNoDevice where times are predicted, not measured; kIoError when
// interrupted.
Result<Recording> measure_once(const TuneSettings& settings);

}  // namespace sparsmith::tools
