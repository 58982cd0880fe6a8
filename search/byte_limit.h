// A limit on the bytes of a whole model: what each weight could be kept as, and what it is kept as then.
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

// The weight's present choices, and, as far as they are no worse in both bytes and time, one for each packing that
// serves all its N and one for dense.
//   packing_bytes: GPU bytes of each packing.
std::vector<Alternative> alternatives_of(const WeightResult& weight, const std::vector<Bucket>& buckets,
                                         const std::map<std::string, std::int64_t>& packing_bytes, bool predicted);

// Exchanges choices for other alternatives until the model fits options.max_bytes, and packs those weights again, on
// all cores. Fills in report.byte_limit.
//   Errors: as read_weight().
Status limit_bytes(std::span<const WeightInput> inputs, const TuneOptions& options, TuneReport& report);

}  // namespace sparsmith
