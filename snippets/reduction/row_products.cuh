// The products of an entry's weight with the 16 bytes of tokens of its row. A lane adds them to its fp32 sums, at once
// or as chains.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_stream.cuh"

namespace sparsmith {

namespace panel {

using RowWords = Vector<u32, 4>;

template <class Value>
SPARSMITH_DEVICE float token_of(const RowWords& row, int t) {
  if constexpr (sizeof(Value) == 4) {
    return float_from_bits(row[t]);
  } else {
    return to_float(Value{static_cast<u16>(row[t / 2] >> (16 * (t % 2)))});
  }
}

}  // namespace panel

// In fp32, in which products of two 16-bit values are exact.
template <class Value>
struct Fp32Products {
  SPARSMITH_ROLE(reduction)

  static constexpr int kTokens = panel::kRowBytes / static_cast<int>(sizeof(Value));

  // Adds the products of entry e of a step to the sums of row r. All entries of a step come in turn.
  template <class Entry, class Sums>
  SPARSMITH_DEVICE void add(const typename Entry::Step& step, int e, const panel::RowWords& row, Sums& sums, int r) {
    float x[kTokens];
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) x[t] = panel::token_of<Value>(row, t);
    sums.add(r, Entry::weight(step, e), x);
  }
};

// In fp16: each product, and its sum with the step's earlier products, is rounded; after each step, the sums are added
// to the fp32 sums. This halves the multiplications, and needs a conversion per chain instead of per product. An
// intermediate value over 65,504 becomes infinite. For operators that allow it (Accumulation::kFp16Chains).
struct Fp16Chains {
  SPARSMITH_ROLE(reduction)

  u32 chains[4];  // of two tokens each

  template <class Entry, class Sums>
  SPARSMITH_DEVICE void add(const typename Entry::Step& step, int e, const panel::RowWords& row, Sums& sums, int r) {
    const u32 weights = Entry::weight_pair(step, e);
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
      chains[i] = e == 0 ? multiply_halves(weights, row[i]) : multiply_add_halves(weights, row[i], chains[i]);
      if (e + 1 < Entry::kCount) continue;
      sums.values[r][2 * i] += to_float(half{static_cast<u16>(chains[i])});
      sums.values[r][2 * i + 1] += to_float(half{static_cast<u16>(chains[i] >> 16)});
    }
  }
};

}  // namespace sparsmith
