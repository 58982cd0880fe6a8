// Options of `sparsmith perf`, and what each of its commands does with them.
#pragma once

#include <string>
#include <vector>

#include "history/records.h"
#include "sparsmith/status.h"

namespace sparsmith::tools {

struct PerfOptions {
  std::string database = "perf.db";
  bool json = false;
  bool force = false;
  std::string html;  // of compare and history: a page to write

  // record
  std::string suite;
  std::vector<std::string> bench;             // files of `bench --json`; "-": stdin
  std::vector<std::string> google_benchmark;  // files of Google Benchmark; "-": stdin
  PerfRun run;
  std::string clocks;             // empty: as the measurements say
  int rounds = 0;                 // of a suite; 0: as it says
  std::vector<std::string> only;  // names of cases
  std::string cases;              // a file of such names
  std::string against;            // a commit: what is the same code there is not measured further
  std::string cache;
  bool keep_choices = false;

  // compare
  std::string base;
  std::string head;
  bool markdown = false;
  std::string junit;     // a file to write
  std::string suspects;  // a file to write
  std::string unsure;    // likewise
  std::string fail_on;   // "slow", "kernel", or empty
  bool once = false;
  bool all = false;
  double smallest_change = 1;  // percent

  // history and mark
  std::string branch;
  std::string case_name;
  PerfMark mark;
};

// Each prints its result; the exit code, or the error.
Result<int> perf_record(const PerfOptions& options);
Result<int> perf_compare(const PerfOptions& options);
Result<int> perf_history(const PerfOptions& options);
Result<int> perf_mark(const PerfOptions& options);

}  // namespace sparsmith::tools
