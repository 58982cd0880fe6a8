// A suite: the cases that `sparsmith perf record SUITE.json` measures (docs/guide/performance_history.md has the
// format).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// The defaults for a verdict: rounds of a case, and samples of a round. verdict_test prints the changes that they
// detect.
inline constexpr int kDefaultRounds = 15;
inline constexpr int kDefaultRepetitions = 15;

// A weight to draw, as by `sparsmith synth`.
struct DrawnWeight {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double sparsity = 0.9;
  std::string pattern = "uniform";
  std::uint64_t seed = 0;
};

// The weights of one file, or one drawn weight, with their measurements.
struct SuiteEntry {
  std::string name;  // of a drawn weight
  std::string file;  // relative to the suite's folder; empty: drawn
  DrawnWeight drawn;
  std::vector<std::string> include;  // for a file: patterns of names; empty: every weight that is sparse enough
  std::vector<std::int64_t> tokens = {1};
  std::vector<std::string> dtypes;  // empty: the weight's own
  std::string layout = "token_major";
  std::string accumulation = "fp32";
  std::string epilogue = "none";
};

struct Suite {
  std::string name;
  std::vector<std::string> devices;  // "cuda:0"; empty: the first GPU
  int rounds = kDefaultRounds;
  int repetitions = kDefaultRepetitions;
  std::string budget;        // of the first round's search, as for `tune --budget`; empty: none
  std::string cache_policy;  // "cold_weights", the default, or "cold_weights_programmatic"
  std::vector<SuiteEntry> weights;
};

// Error: kInvalidInput with the place; also for an unknown member, which would have no effect.
Result<Suite> parse_suite(std::string_view text);

}  // namespace sparsmith
