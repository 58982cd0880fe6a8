// The rules for timing a candidate, and the result.
#pragma once

#include <string>
#include <vector>

namespace sparsmith {

// Part of a choice's key.
struct TimingPolicy {
  bool cold_weights = true;   // rotate over copies of the packed weight: each has left L2 before its next use
  bool programmatic = false;  // launch our kernels programmatically (LaunchPlan), if the device can
  int layers = 0;             // launches in one graph, over as many copies if they fit; 0: as needed
  int min_replays = 15;
  double max_milliseconds = 200;  // limit for one candidate
  double limit_us = 0;            // above it a candidate stops after its first launches; 0: no limit

  // "cold_weights", "cold_weights_programmatic", "cold_weights_64_layers".
  std::string name() const {
    std::string name = cold_weights ? "cold_weights" : "warm_weights";
    if (programmatic) name += "_programmatic";
    if (layers > 0) name.append("_").append(std::to_string(layers)).append("_layers");
    return name;
  }
};

struct Timing {
  double median_us = 0;
  double q1_us = 0;
  double q3_us = 0;
  std::vector<float> samples_us;  // one per replay: its time divided by its launches
  int copies = 1;                 // of the weight, in the rotation
  bool too_slow = false;          // over the policy's limit; the only sample is the mean of the first launches
  bool warm = false;              // copies were not cold: see plan_copies()
};

}  // namespace sparsmith
