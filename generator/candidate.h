// A way to run an operator on a weight at a number of tokens.
#pragma once

#include <string>
#include <vector>

#include "generator/config.h"
#include "runtime/launch_plan.h"

namespace sparsmith {

// A generated kernel: self-contained CUDA C++ with one extern "C" entry point.
struct KernelSource {
  std::string name;  // spells every parameter that changes the code; entry point and cache key
  std::string source;
  std::string closure_hash;  // of `source` without comments and blanks: equal hash, equal code
  int threads_per_block = 0;
  std::int64_t max_shared_bytes = 0;
  std::string architecture = {};  // "sm_90a": the only architecture that it compiles for; empty: any
  bool operator==(const KernelSource&) const = default;
};

struct Candidate {
  Config config;
  std::string packing;  // the PackedWeight::packing that the plan binds to
  std::vector<KernelSource> kernels;
  LaunchPlan plan;
  double predicted_us = 0;  // by the cost model
};

}  // namespace sparsmith
