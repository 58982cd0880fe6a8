// One N of an operator of a weight during a search.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "search/choice/choice.h"
#include "search/choice/tune_options.h"
#include "search/choice/tune_report.h"
#include "search/trial/trial_set.h"

namespace sparsmith {

struct Bucket {
  OperatorSpec spec;
  std::int64_t tokens = 1;
  double calls = 1;
  double gain_us = 0;                  // promised by the cost model against dense, over all calls
  std::unique_ptr<TrialSet> search;    // during the search
  std::vector<Trial> trials;           // after it
  std::vector<Rejection> ungenerated;  // configs that could not be generated
  std::vector<VendorTiming> vendors;
  bool complete = true;
  std::int64_t considered = 0;  // configs that broke no rule
};

// How often each of options.tokens is run: options.calls, or such that a dense product spends the same time at each N
// as at the first; for training equally often for all operators. By the cost model, so that a weight has the same
// counts in every run.
std::vector<double> calls_of(const TuneOptions& options, const OperatorSpec& spec, const DeviceProperties& device);

// The input of choose_packings(). `predicted`: untimed trials count with their predictions.
BucketTimes times_of(const Bucket& bucket, bool predicted);

// The class of a rejection, which many candidates share: "too slow", "does not compile".
std::string rejection_class(MeasurementStatus status, const std::string& reason);

// The choice with its evidence. `winner` is of the bucket's trials. `cache_match`: the quality of the cached choice.
BucketChoice bucket_choice(const Bucket& bucket, const Winner& winner, bool predicted, const std::string& cache_match);

}  // namespace sparsmith
