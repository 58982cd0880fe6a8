// Products of a step by tensor cores, for 16-bit values: 32 entries, one a lane, in one gather and two multiplications.
//
// ldmatrix takes an address from each lane and brings 32 panel rows as the B operands of two mma.m16n8k16: entry k is
// row k of B. A is a diagonal of the 16 weights, up to a permutation, so that each entry meets the sums of its own
// segment, and no conversion, no product and no address but its own costs a lane an instruction. Of the 2,048 products
// of an mma 128 count; the tensor cores have them to spare.
//
// The other products are 0 * x. They are 0 unless some x is Inf or NaN; then sums become NaN, which put() reports.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_input.cuh"
#include "snippets/prolog/panel_stream.cuh"
#include "snippets/reduction/panel_sums.cuh"
#include "snippets/reduction/plain_products.cuh"

namespace sparsmith {

// Lane 8 j + r gathers row r of matrix j, for the segment in row g = (r + 2 j) % 8 of the sums' quarter j. The lane
// 4 g + t holds the weight of entry (j, r) where r = 2 t + g % 2: so every lane holds one, and its place in A.
template <class Value, int kLanes_>
struct TensorProducts {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)
  static_assert(sizeof(Value) == 2, "tensor cores take 16-bit values");

  static constexpr int kLanes = kLanes_;
  static constexpr int kSegments = panel::kWarpLanes / kLanes;
  static constexpr int kGroups = kSegments / panel::kPhaseLanes;  // segments whose sums a lane holds
  static constexpr bool kNeedsFinite = true;
  static constexpr int kTokens = panel::Row<Value>::kTokens;
  struct Slots {  // of the segments whose sums a lane holds; two in a word, so that they wait in few registers
    Vector<u32, (kGroups + 1) / 2> words;
    SPARSMITH_DEVICE u32 operator[](int g) const { return g % 2 == 0 ? words[g / 2] & 0xFFFFU : words[g / 2] >> 16; }
  };

  float sums[2][4];  // quarters 0 and 1, 2 and 3: two tokens each
  u32 place[4];      // where a weight goes in A of each quarter

  SPARSMITH_DEVICE void begin() {
    const int lane = thread_index() % panel::kWarpLanes;
    const int group = lane / 4;
    const int quarter = (group / 2 + 4 - lane % 4) % 4;
    SPARSMITH_UNROLL for (int j = 0; j < 4; ++j) {
      place[j] = j != quarter ? 0x4444U : group % 2 == 0 ? 0x4432U : 0x3244U;
    }
    clear();
  }

  static SPARSMITH_DEVICE Slots slots(const u16* task_slots, u32 task) {
    const u16* first =
        task_slots + static_cast<i64>(task) * kSegments + thread_index() % panel::kWarpLanes / 4 * kGroups;
    if constexpr (kGroups == 1) return {{{load_cached(first)}}};
    return {load_cached(reinterpret_cast<const decltype(Slots::words)*>(first))};
  }

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress panel) {
    u32 gathered[4][4];  // all on their way before the first is used
    SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
      load_matrices_transposed(panel::Entry<Value>::row(step, e, panel), gathered[e]);
    }
    SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
      const u32(&rows)[4] = gathered[e];
      SPARSMITH_UNROLL for (int q = 0; q < 2; ++q) {
        const u32 weights[4] = {permute_bytes(step[e], 0, place[2 * q]), 0, 0,
                                permute_bytes(step[e], 0, place[2 * q + 1])};
        TensorMultiply<Value>::add(sums[q], weights, rows[2 * q], rows[2 * q + 1]);
      }
    }
  }

  // Ends a task: its sums go to their slots [kTokens], and the next one begins at 0. Every lane of the warp calls it.
  template <class Sums>
  SPARSMITH_DEVICE void put(const Slots& slots, const Sums& to) {
    float check = 0.0F;
    SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) check = multiply_add(sums[i / 4][i % 4], 0.0F, check);
    if (check != 0.0F) atomic_add(to.infinite, 1.0F);
    const int first_token = thread_index() % 4 * 2;
    SPARSMITH_UNROLL for (int g = 0; g < kGroups; ++g) {
      float pair[2] = {};
      SPARSMITH_UNROLL for (int quarter = g; quarter < 4; quarter += kGroups) {
        SPARSMITH_UNROLL for (int t = 0; t < 2; ++t) pair[t] += sums[quarter / 2][quarter % 2 * 2 + t];
      }
      if (slots[g] == panel::kNoSlot) continue;
      if (Sums::is_row(slots[g])) {
        to.store_row(slots[g], first_token, pair);
      } else {
        const u32 index = panel::Row<Value>::sum_index(slots[g], first_token);
        *reinterpret_cast<Vector<float, 2>*>(to.slots + index) = {{pair[0], pair[1]}};
      }
    }
    clear();
  }

 private:
  SPARSMITH_DEVICE void clear() { SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] = 0.0F; }
};

// What TensorProducts computes from the same steps, each lane for itself: right whatever X holds.
template <class Value, int kLanes_>
struct TensorFallback {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)

  static constexpr int kLanes = kLanes_;
  static constexpr int kSegments = panel::kWarpLanes / kLanes;
  static constexpr int kGroups = kSegments / panel::kPhaseLanes;
  using Row = panel::Row<Value>;
  using Slots = Vector<u16, 1>;

  RegisterSums<1, Row::kTokens> sums;

  SPARSMITH_DEVICE void begin() { sums.clear(); }

  static SPARSMITH_DEVICE Slots slots(const u16* task_slots, u32 task) {
    const int segment = group() * kGroups + quarter() % kGroups;
    return load_cached(reinterpret_cast<const Slots*>(task_slots + static_cast<i64>(task) * kSegments + segment));
  }

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress rows) {
    const int holder = group() * 4 + thread_index() % panel::kPhaseLanes / 2;
    SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
      const auto tokens = load_shared<typename Row::Tokens>(panel::Entry<Value>::row(step, e, rows));
      float x[Row::kTokens];
      SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; ++t) x[t] = to_float(tokens[t]);
      sums.add(0, panel::Entry<Value>::weight(shuffle_index(step[e] >> 16, holder)), x);
    }
  }

  template <class Sums>
  SPARSMITH_DEVICE void put(const Slots& slots, const Sums& to) {
    // The lanes of a segment are those of one group in quarters kGroups apart.
    SPARSMITH_UNROLL for (int distance = kGroups; distance < 4; distance *= 2) {
      const int other = quarter() ^ distance;
      const int partner = other * panel::kPhaseLanes + (group() + 8 - 2 * other) % panel::kPhaseLanes;
      SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; ++t) {
        sums.values[0][t] += float_from_bits(shuffle_index(bits_of_float(sums.values[0][t]), partner));
      }
    }
    if (quarter() >= kGroups || slots[0] == panel::kNoSlot) {
      // Nothing, or another lane does it.
    } else if (Sums::is_row(slots[0])) {
      to.store_row(slots[0], 0, sums.values[0]);
    } else {
      SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; ++t) to.slots[Row::sum_index(slots[0], t)] = sums.values[0][t];
    }
    sums.clear();
  }

 private:
  static SPARSMITH_DEVICE int quarter() { return thread_index() % panel::kWarpLanes / panel::kPhaseLanes; }
  static SPARSMITH_DEVICE int group() { return (thread_index() + 2 * quarter()) % panel::kPhaseLanes; }
};

}  // namespace sparsmith
