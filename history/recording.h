// Reads the output of benchmark programs as measurements for the store.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "history/records.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct Recording {
  PerfEnvironment environment;
  std::string program_version;
  double search_s = 0;
  std::vector<PerfMeasurement> measurements;
  std::vector<std::string> left_out;  // cases that cannot be recorded, with the reason
};

// Parses the output of `sparsmith bench --json` or `tune --json`: one round of every (weight, N). Predicted times, and
// cached times that were not measured in this run, are left out.
//   Error: kInvalidInput with the place in the text.
Result<Recording> parse_bench_json(std::string_view text);

// Parses the output of Google Benchmark with --benchmark_format=json: each repetition is a round of one sample.
// Aggregates are left out. Failed benchmarks are left out, with their message as the reason.
//   Error: kInvalidInput with the place in the text.
Result<Recording> parse_google_benchmark(std::string_view text);

}  // namespace sparsmith
