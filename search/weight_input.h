// The weights that a tuning run is given.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "matrix/csr_matrix.h"
#include "matrix/sparsity_statistics.h"
#include "search/choice/tune_options.h"
#include "sparsmith/group_member.h"
#include "sparsmith/status.h"

namespace sparsmith {

// A weight that is read when its turn comes, so that a model larger than memory can be tuned. A group is tuned as the
// one weight that its members are, one below the other.
struct WeightInput {
  std::string name;
  std::function<Result<CsrMatrix>()> load;         // unless it is a group
  std::vector<WeightInput> members{};              // of a group: weights of one K and, after conversion, one type
  std::optional<SparsityStatistics> statistics{};  // of what load() gives, where they are known; for spmm alone
  std::optional<Epilogue> epilogue{};              // in place of the options'
};

// The weight as the options want it: transposed, converted, joined from its members, which go to `members`.
//   Errors: what load() says; kInvalidArgument when members do not go together, or where an operator does not fit the
//   weight.
Result<CsrMatrix> read_weight(const WeightInput& input, const TuneOptions& options, std::vector<GroupMember>& members);

}  // namespace sparsmith
