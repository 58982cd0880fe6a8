// Two reductions in one header.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

namespace detail {
template <class T>
struct Pair {
  T first, second;
};
}  // namespace detail

enum class Order { kForward, kBackward };

// Adds pairwise; any | order.
template <Order kOrder, bool kFast>
struct PairwiseSum {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kOrder, Order::kForward, Order::kBackward)
  SPARSMITH_TUNE(kFast, false, true)

  template <class Sums>
  static constexpr int shared_bytes(int threads) {
    return threads * Sums::kCount  // one each
           * 4;
  }

  static SPARSMITH_DEVICE float combine(detail::Pair<float> pair) { return shuffle_xor(pair.first, 1) + pair.second; }
};

// Adds nothing.
struct NoSum {
  SPARSMITH_ROLE(reduction)
};

}  // namespace sparsmith
