// Finds the tensors of a file that tensor parallelism cuts: each rank computes with its part of them.
//
// Weights of a split are cut at common boundaries. Those that are cut by rows make parts of one activation, which those
// that are cut by columns read: attention's query, key, value and output; a feed-forward layer's gate, up and down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "matrix/weight_cut.h"
#include "matrix/weight_groups.h"

namespace sparsmith {

// "NAME:rows=MEMBER,columns=MEMBER,..." or "NAME/UNITS:...": the rules of GroupPattern, also for a single member. Each
// text of a `*` gives a set of its own. With UNITS, boundaries lie between UNITS equal units of each member's
// dimension: `attention/8` for 8 key and value heads. Without, a unit has the largest power of two of features, 64 at
// most, that divides the dimension and leaves a unit for each rank; the dimension is then the same of all members.
struct SplitPattern {
  GroupPattern weights;
  std::vector<WeightCut::Dimension> dimensions;  // of each member
  std::int64_t units = 0;                        // 0: not given

  std::string text() const;
};

// Error: kInvalidArgument with the reason.
Result<SplitPattern> parse_split_pattern(const std::string& text);

// Weights that are cut alike.
struct SplitSet {
  std::string name;
  std::vector<std::size_t> members;              // indices in ModelFile::tensors()
  std::vector<WeightCut::Dimension> dimensions;  // of each member
  std::int64_t units = 0;

  // Whether the members are cut by one dimension alone: WeightCut::whole.
  bool whole() const;
};

struct SplitSearch {
  std::vector<SplitPattern> patterns{};
  int ranks = 0;
  std::vector<WeightGroup> groups{};
  LeftOut left_out{};
};

// The sets of a file, pattern by pattern.
//   Error: kInvalidArgument when a pattern finds nothing, a set lacks a member, a tensor is in two sets, units do not
//   divide a dimension, there are fewer units than ranks, or a group is not cut by rows as a whole.
Result<std::vector<SplitSet>> find_splits(const ModelFile& file, const SplitSearch& search);

}  // namespace sparsmith
