// How many bytes weights take: what each could be kept as, and what it is kept as where a whole model is bounded.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "search/bucket.h"
#include "search/tune_options.h"
#include "search/tune_report.h"
#include "search/weight_input.h"

namespace sparsmith {

// Packings to choose within shares of the dense bytes up to kMostMemory, each way once.
std::vector<std::vector<std::string>> ways_to_keep(const std::vector<BucketTimes>& times,
                                                   const std::map<std::string, std::int64_t>& bytes,
                                                   std::int64_t dense_bytes);

// The ways to keep the weight within shares of its dense bytes up to kMostMemory, as WeightResult::alternatives has
// them. `kept`: the present choices' packings.
std::vector<Alternative> alternatives_of(const TuneOptions& options, const WeightResult& weight,
                                         const std::vector<Bucket>& buckets, const std::vector<std::string>& kept,
                                         const std::map<std::string, std::int64_t>& bytes, bool predicted);

// Exchanges choices for other alternatives until the model fits options.model_bytes, where there is such a bound, and
// packs those weights again, on all cores. Fills in report.memory.
//   Errors: as read_weight().
Status bound_memory(std::span<const WeightInput> inputs, const TuneOptions& options, TuneReport& report);

}  // namespace sparsmith
