// Options and commands of `sparsmith perf`.
#pragma once

#include <string>
#include <vector>

#include "history/records.h"
#include "tools/command.h"

namespace sparsmith::tools {

struct PerfOptions {
  std::string database = "perf.db";
  bool json = false;
  bool force = false;
  std::string html;  // page to write, for compare and history

  // record
  std::string suite;
  std::vector<std::string> bench;             // files of `bench --json`; "-": stdin
  std::vector<std::string> google_benchmark;  // files of Google Benchmark; "-": stdin
  PerfRun run;
  std::string clocks;             // empty: from the measurements
  int rounds = 0;                 // of a suite; 0: the suite's number
  std::vector<std::string> only;  // names of cases
  std::string cases;              // a file with names of cases
  std::string against;            // a commit: cases with the same code there are not measured further
  std::string cache;
  bool keep_choices = false;

  // compare
  std::string base;
  std::string head;
  bool markdown = false;
  std::string junit;     // a file to write
  std::string suspects;  // a file to write
  std::string unsure;    // a file to write
  std::string fail_on;   // "slow", "kernel", or empty
  bool once = false;
  bool all = false;
  double smallest_change = 1;  // percent

  // history and mark
  std::string branch;
  std::string case_name;
  PerfMark mark;
};

// Each command prints its result. Returns the exit code or the error.
Result<ExitCode> perf_record(const PerfOptions& options);
Result<ExitCode> perf_compare(const PerfOptions& options);
Result<ExitCode> perf_history(const PerfOptions& options);
Result<ExitCode> perf_mark(const PerfOptions& options);

}  // namespace sparsmith::tools
