// Measurements as benchmark programs print them, on their way into the store.
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
  std::vector<std::string> left_out;  // what cannot be recorded, with the reason
};

// The output of `sparsmith bench --json` or `tune --json`: one round of every (weight, N). What was predicted, or
// comes from the cache without being measured, is left out.
//   Error: kInvalidInput, which says where.
Result<Recording> parse_bench_json(std::string_view text);

// The output of Google Benchmark with --benchmark_format=json: each repetition is a round of one sample. Aggregates are
// left out, and benchmarks that failed, with what they said.
//   Error: kInvalidInput, which says where.
Result<Recording> parse_google_benchmark(std::string_view text);

}  // namespace sparsmith
