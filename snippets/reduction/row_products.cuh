// What a lane makes of an entry's weight and the 16 bytes of tokens of its row: products that are added to its fp32
// sums, at once or as chains.
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

// In fp32, as products of two 16-bit values are exact.
template <class Value>
struct Fp32Products {
  SPARSMITH_ROLE(reduction)

  static constexpr int kTokens = panel::kRowBytes / static_cast<int>(sizeof(Value));

  // Of entry e of a step, to the sums of row r. All entries of a step come in turn.
  template <class Entry, class Sums>
  SPARSMITH_DEVICE void add(const typename Entry::Step& step, int e, const panel::RowWords& row, Sums& sums, int r) {
    float x[kTokens];
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) x[t] = panel::token_of<Value>(row, t);
    sums.add(r, Entry::weight(step, e), x);
  }
};

// In fp16, where each product and its sum with those of the step before it is rounded, and step by step to fp32: half
// as many multiplications, and a conversion for every chain instead of every product. What exceeds 65,504 on the way
// becomes infinite. For operators that allow it (Accumulation::kFp16Chains).
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
