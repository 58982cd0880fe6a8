// A suite: what `sparsmith perf record SUITE.json` measures (docs/performance_history.md has the format).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// What a verdict takes by default: rounds of a case, and samples of a round. verdict_test prints what they find.
inline constexpr int kDefaultRounds = 15;
inline constexpr int kDefaultRepetitions = 15;

// A weight to draw, as `sparsmith synth` does.
struct DrawnWeight {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double sparsity = 0.9;
  std::string pattern = "uniform";
  std::uint64_t seed = 0;
};

// Weights of one file, or a drawn one, with what is measured of them.
struct SuiteEntry {
  std::string name;  // of a drawn weight
  std::string file;  // relative to the suite's folder; empty: drawn
  DrawnWeight drawn;
  std::vector<std::string> include;  // of a file: patterns of names; empty: every weight that is sparse enough
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
  std::string budget;        // of the first round's search, as `tune --budget` takes it; empty: none
  std::string cache_policy;  // "cold_weights", the default, or "cold_weights_programmatic"
  std::vector<SuiteEntry> weights;
};

// Error: kInvalidInput, which says where; also for a member that is not known, since it was meant to do something.
Result<Suite> parse_suite(std::string_view text);

}  // namespace sparsmith
