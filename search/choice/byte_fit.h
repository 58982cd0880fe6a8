// Fits a whole model into a number of bytes: chooses the weights that give up time for memory. Pure functions.
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

// Indices of the options that no other option beats in both bytes and time, fewest bytes first.
std::vector<std::size_t> best_tradeoffs(std::span<const ByteOption> options);

// One option of each weight, together at most `most_bytes`, with little time: starts with the fastest options, takes
// steps to smaller ones that cost the least time a byte, then uses room that is left for the steps back that gain most,
// also by exchange with another weight. If even the smallest options do not fit, returns these. REQUIRES: each weight
// has an option.
std::vector<std::size_t> fit_bytes(const std::vector<std::vector<ByteOption>>& weights, std::int64_t most_bytes);

}  // namespace sparsmith
