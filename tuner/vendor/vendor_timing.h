// The time of a vendor library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/time/timing.h"
#include "tuner/verify/verification.h"

namespace sparsmith {

// The best time of a vendor library. `name` is "cusparse" (best over algorithms and both layouts, preprocessed),
// "cusparselt" (best over algorithms and both layouts, compressed), or "dense" in a search.
struct VendorTiming {
  std::string name;
  bool supported = true;
  std::string detail;                 // the algorithm that won, or why it is not supported
  std::string broke;                  // not supported: the algorithm that broke the GPU's context, as detail() names it
  std::vector<std::string> slower{};  // with `broke`: those that failed before it, or than which another one is faster
  Timing timing;                      // the best, in any layout of X and Y
  double own_layout_us = 0;           // the best in the operator's layout, from a few samples; 0: none
  bool epilogue_left_out = false;     // only the product was timed, without the operator's epilogue
  Verification verification;
  std::int64_t weight_bytes = 0;  // on the GPU
};

}  // namespace sparsmith
