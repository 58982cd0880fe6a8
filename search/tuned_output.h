// From a tuning run to a tuned file, and from a tuned file back to what a worker takes.
#pragma once

#include <string>

#include "runtime/tuned_file.h"
#include "search/tune_report.h"

namespace sparsmith {

// The contents of the tuned file: views into `report`, which must outlive them.
TunedContents tuned_contents(const TuneReport& report, const TunedProvenance& provenance);

// A packing of a tuned file as a packed weight of its own.
PackedWeight packed_weight_of(const TunedWeight& weight, const TunedPacking& packing);

// The weight that a tuned file holds in one of its packings. Error: kUnsupported when this build knows none of them,
// kInvalidInput when the arrays do not fit together.
Result<CsrMatrix> matrix_of(const TunedWeight& weight);

// The choice as a worker takes it: its plan, and its kernels with the binaries for `compute_capability`.
//   Error: kUnsupported when there are none and `needs_binaries`, with the architectures that there are.
Result<LoadedCandidate> loaded_choice(const TunedContents& contents, const TunedChoice& choice, int compute_capability,
                                      bool needs_binaries);

}  // namespace sparsmith
