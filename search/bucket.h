// One N of an operator of a weight on its way through a search.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/choice.h"
#include "search/contenders.h"
#include "search/tune_report.h"

namespace sparsmith {

struct Bucket {
  OperatorSpec spec;
  std::int64_t tokens = 1;
  double calls = 1;
  double gain_us = 0;                  // that the cost model promises against dense, over all calls
  std::unique_ptr<Contenders> search;  // while it goes on
  std::vector<Contender> contenders;   // what came of it
  std::vector<Rejection> ungenerated;  // configs that made no contender
  std::vector<VendorTiming> vendors;
  bool complete = true;
  std::int64_t considered = 0;  // configs that broke no rule
};

// What choose_packings() decides from. predicted: contenders that wait count too, as predicted.
BucketTimes times_of(const Bucket& bucket, bool predicted);

// In a few words, which many have in common: why a candidate was rejected.
std::string rejection_class(MeasurementStatus status, const std::string& reason);

// How the reason of what did not fit the device begins.
inline constexpr std::string_view kOutOfDeviceMemory = "out of device memory";

// The choice, whose decision is of the bucket's contenders, with all that it stands on. `cache_match`: how good what
// the cache had was.
BucketChoice bucket_choice(const Bucket& bucket, const Decision& decision, bool predicted,
                           const std::string& cache_match);

}  // namespace sparsmith
