// Parts of a model's weights, each for a machine of its own: `tune --shard 2/8`. The caches are joined afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
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

}  // namespace sparsmith
