// Parts of a model's weights for several machines, whose caches are joined afterwards: `tune --shard 2/8` where they
// know nothing of each other, units (`tune --units`) where one machine hands out work and results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

struct Shard {
  int number = 1;  // from 1
  int count = 1;
};
// "2/8". Error: kInvalidArgument.
Result<Shard> parse_shard(std::string_view text);

struct ShardWeight {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
};

// The indices of a shard's weights, ascending; each weight is in one shard, and the same weights give the same shards
// on every machine. Weights of one shape and about one density stay together as far as shards of equal work allow: the
// first one of them in a run is searched, and others try its result. Shards may be empty if there are few weights.
std::vector<std::size_t> weights_of_shard(std::span<const ShardWeight> weights, Shard shard);

// Weights that one run tunes.
struct TuningUnit {
  std::vector<std::size_t> weights;    // indices, ascending
  double work = 0;                     // in full searches of a small weight
  std::optional<std::size_t> after{};  // index of the unit whose results this one begins with, earlier in the list
};

// About `count` units, at most one a weight; each weight is in one. Where the weights of a shape and density are more
// than one unit's work, the first is a unit of its own, and those that try its result come after it, in parts. First
// stand the units that others wait for, then those of most work.
std::vector<TuningUnit> tuning_units(std::span<const ShardWeight> weights, int count);

}  // namespace sparsmith
