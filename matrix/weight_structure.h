// Regular structures that a weight has, or nearly has: blocks, and N of M columns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "matrix/sparsity_statistics.h"

namespace sparsmith {

// A structure and the nonzeros outside of it, the rest.
struct WeightStructure {
  std::string name;  // "2:4": two of each aligned group of four columns; "b32": blocks of 32 x 32, half full or more
  double fill = 0;   // of the structure's places, the share that holds a nonzero
  double rest = 0;   // of the nonzeros, the share that is outside
  std::int64_t bytes = 0;  // of both, with values of the source's type; the rest as CSR

  // "2:4", or "2:4 but for 1.2 % of the nonzeros".
  std::string text() const;
};

// Blocks of each size; for groups of 4, 8 and 16 columns the N that fits the density, and 2:4.
std::vector<WeightStructure> structures_of(const SparsityStatistics& statistics);

// The one that the weight has or nearly has: at most a tenth of the nonzeros are outside, and it is not what zeros at
// random would give. Of several, that with the fewest bytes.
std::optional<WeightStructure> structure_of(const SparsityStatistics& statistics);

}  // namespace sparsmith
