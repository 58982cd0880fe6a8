// Runs a suite: every weight of it tuned once, then measured round by round.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "history/recording.h"
#include "history/suite.h"

namespace sparsmith::tools {

struct SuiteRun {
  std::string folder;           // that files of the suite are relative to
  std::string cache;            // empty: one that lasts for the run, so that nothing earlier decides
  std::set<std::string> cases;  // names; empty: every one
  // Called once a round, for each file or drawn weight and type; false ends its measurement.
  std::function<Result<bool>(int round, Recording recording)> record;
};

// Errors: of reading weights and of devices; kNoDevice where times are predicted, not measured; kInvalidInput when no
// case of the suite has a name that was asked for.
Status run_suite(const Suite& suite, const SuiteRun& run);

}  // namespace sparsmith::tools
