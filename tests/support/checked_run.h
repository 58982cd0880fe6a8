// A tuned file in memory run through the library on the fake driver, with every address and size compared with what the
// plan and the buffers allow.
#pragma once

#include <string>

#include "runtime/tuned_file.h"

namespace sparsmith::test {

struct CheckedRun {
  int runs = 0;           // that launched what their plans say
  int updates = 0;        // of values
  int refused = 0;        // runs and updates that ended with an error before a launch
  std::string violation;  // the first thing that was wrong; empty: nothing
};

// Loads the contents, runs each operator for the least and largest tokens of its buckets and one more, and gives each
// weight new values.
//   run_kernels: the fake kernels too, which look at each address that they touch. Without, integers that a plan hands
//   to a kernel do not count.
// REQUIRES: the fake driver is found before any other. One thread at a time.
CheckedRun run_checked(const TunedContents& contents, bool run_kernels);

}  // namespace sparsmith::test
