// From a tuning run to a tuned file, and from a tuned file back to what a worker takes.
#pragma once

#include "runtime/tuned_file.h"
#include "search/choice/tune_report.h"

namespace sparsmith {

// The contents of the tuned file: views into `report`, which must outlive them.
TunedContents tuned_contents(const TuneReport& report, const TunedProvenance& provenance);

// The choice as a GPU's worker takes it: its plan, and its kernels with the binaries for `compute_capability` and
// without the stored sources, which nothing on the host may run (search/record/regenerated_choice.h has those for the
// emulator).
//   Error: kUnsupported when there are no binaries, with the architectures that there are.
Result<CompiledCandidate> loaded_choice(const TunedContents& contents, const TunedChoice& choice,
                                        int compute_capability);

}  // namespace sparsmith
