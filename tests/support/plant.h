// Faults that a build for tests plants on purpose, so that the performance history can be seen to find them
// (tests/perf_plants.sh), and a search to outlive them (tests/fault_plants.sh). Only a build with -DSPARSMITH_PLANTS=ON
// holds any: tests/support/plants.cmake says which lines of the product they replace.
#pragma once

#include <cstdint>

namespace sparsmith {

enum class Plant : std::uint8_t {
  kSlowSnippet,      // "slow_snippet": snippets/reduction/slot_sums.cuh does work whose result nobody sees
  kBankSchedule,     // "bank_schedule": the panel packer deals entries without looking at banks
  kCostModel,        // "cost_model": the model of the slots family takes a launch to be dear
  kCandidateFaults,  // "candidate_faults": one kernel in twenty does not work (tests/support/planted_faults.h)
};

// Whether the environment variable SPARSMITH_PLANT names it. A name that there is none of ends the program: a plain
// build would be measured for a planted one. The variable is read anew each time: a test may set it in a child process.
// Any thread.
bool is_planted(Plant plant);

}  // namespace sparsmith
