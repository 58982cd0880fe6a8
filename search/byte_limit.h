// The bytes of weights: the ways to keep each weight, and the choice among them where a whole model is bounded.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "search/choice/bucket.h"
#include "search/choice/tune_options.h"
#include "search/choice/tune_report.h"
#include "search/weight_input.h"

namespace sparsmith {

// The packings to keep within each of several shares of the dense bytes, up to kMostMemory, without repetitions.
std::vector<std::vector<std::string>> ways_to_keep(const std::vector<BucketTimes>& times,
                                                   const std::map<std::string, std::int64_t>& bytes,
                                                   std::int64_t dense_bytes);

// WeightResult::alternatives: the ways to keep the weight within shares of its dense bytes, up to kMostMemory. `kept`:
// the packings of the present choices.
std::vector<Alternative> alternatives_of(const TuneOptions& options, const WeightResult& weight,
                                         const std::vector<Bucket>& buckets, const std::vector<std::string>& kept,
                                         const std::map<std::string, std::int64_t>& bytes, bool predicted);

// If options.model_bytes is a bound, exchanges choices for smaller alternatives until the model fits, and packs these
// weights again on all cores. Fills in report.memory.
//   Errors: as read_weight().
Status bound_memory(std::span<const WeightInput> inputs, const TuneOptions& options, TuneReport& report);

}  // namespace sparsmith
