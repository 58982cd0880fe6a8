// Fits a whole model into so many bytes: which weight gives up time for memory. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sparsmith {

// One way to keep a weight.
struct ByteOption {
  std::int64_t bytes = 0;  // on the GPU
  double us = 0;           // summed over all N, weighted by calls
};

// Those of `options` than which no other is both smaller and as fast, fewest bytes first: indices.
std::vector<std::size_t> best_tradeoffs(std::span<const ByteOption> options);

// One option of each weight, together at most `most_bytes`, for as little time as can be found: from the fastest of
// each, steps to smaller ones that cost the least time a byte; then what room is left goes to the steps back that gain
// most, also such as another weight's step makes room for. Where even the smallest do not fit, these. Weights have one
// option at least.
std::vector<std::size_t> fit_bytes(const std::vector<std::vector<ByteOption>>& weights, std::int64_t most_bytes);

}  // namespace sparsmith
