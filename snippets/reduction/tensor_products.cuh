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
template <class Value, int kLanes_, int kPanels_>
struct TensorProducts {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)
  SPARSMITH_TUNE(kPanels_, 1, 2, 4)
  static_assert(sizeof(Value) == 2, "tensor cores take 16-bit values");

  static constexpr int kLanes = kLanes_;
  static constexpr int kPanels = kPanels_;
  static constexpr int kSegments = panel::kWarpLanes / kLanes;
  static constexpr int kGroups = kSegments / panel::kPhaseLanes;  // segments whose sums a lane holds
  static constexpr bool kNeedsFinite = true;
  static constexpr int kTokens = panel::Row<Value>::kTokens;
  struct Slots {  // of the segments whose sums a lane holds; two in a word, so that they wait in few registers
    Vector<u32, (kGroups + 1) / 2> words;
    SPARSMITH_DEVICE u32 operator[](int g) const { return g % 2 == 0 ? words[g / 2] & 0xFFFFU : words[g / 2] >> 16; }
  };

  float sums[kPanels][2][4];  // quarters 0 and 1, 2 and 3: two tokens each
  u32 place[4];               // where a weight goes in A of each quarter

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

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress panel, u32 stride) {
    constexpr int kTogether = panel::entries_together(4, kPanels);
    SPARSMITH_UNROLL for (int first = 0; first < 4; first += kTogether) {
      u32 gathered[kTogether][kPanels][4];  // all on their way before the first is used
      SPARSMITH_UNROLL for (int e = 0; e < kTogether; ++e) {
        const SharedAddress row = panel::Entry<Value>::row(step, first + e, panel);
        SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
          load_matrices_transposed(advanced(row, p * stride), gathered[e][p]);
        }
      }
      SPARSMITH_UNROLL for (int e = 0; e < kTogether; ++e) {
        SPARSMITH_UNROLL for (int q = 0; q < 2; ++q) {
          const u32 weights[4] = {permute_bytes(step[first + e], 0, place[2 * q]), 0, 0,
                                  permute_bytes(step[first + e], 0, place[2 * q + 1])};
          SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
            const u32(&rows)[4] = gathered[e][p];
            TensorMultiply<Value>::add(sums[p][q], weights, rows[2 * q], rows[2 * q + 1]);
          }
        }
      }
    }
  }

  // Ends a task: its sums go to their slots [kTokens], and the next one begins at 0. Every lane of the warp calls it.
  template <class Sums>
  SPARSMITH_DEVICE void put(const Slots& slots, const Sums& to) {
    float check = 0.0F;
    SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
      SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) check = multiply_add(sums[p][i / 4][i % 4], 0.0F, check);
    }
    if (check != 0.0F) atomic_add(to.infinite, 1.0F);
    const int first_token = thread_index() % 4 * 2;
    SPARSMITH_UNROLL for (int g = 0; g < kGroups; ++g) {
      if (slots[g] == panel::kNoSlot) continue;
      SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
        float pair[2] = {};
        SPARSMITH_UNROLL for (int quarter = g; quarter < 4; quarter += kGroups) {
          SPARSMITH_UNROLL for (int t = 0; t < 2; ++t) pair[t] += sums[p][quarter / 2][quarter % 2 * 2 + t];
        }
        const int token = p * kTokens + first_token;
        if (Sums::is_row(slots[g])) {
          to.store_row(slots[g], token, pair);
        } else {
          *reinterpret_cast<Vector<float, 2>*>(to.slot(slots[g], token)) = {{pair[0], pair[1]}};
        }
      }
    }
    clear();
  }

 private:
  SPARSMITH_DEVICE void clear() {
    SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
      SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) sums[p][i / 4][i % 4] = 0.0F;
    }
  }
};

// What TensorProducts computes from the same steps, each lane for itself: right whatever X holds.
template <class Value, int kLanes_, int kPanels_>
struct TensorFallback {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)
  SPARSMITH_TUNE(kPanels_, 1, 2, 4)

  static constexpr int kLanes = kLanes_;
  static constexpr int kPanels = kPanels_;
  static constexpr int kSegments = panel::kWarpLanes / kLanes;
  static constexpr int kGroups = kSegments / panel::kPhaseLanes;
  using Row = panel::Row<Value>;
  using Slots = Vector<u16, 1>;

  RegisterSums<kPanels, Row::kTokens> sums;

  SPARSMITH_DEVICE void begin() { sums.clear(); }

  static SPARSMITH_DEVICE Slots slots(const u16* task_slots, u32 task) {
    const int segment = group() * kGroups + quarter() % kGroups;
    return load_cached(reinterpret_cast<const Slots*>(task_slots + static_cast<i64>(task) * kSegments + segment));
  }

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress rows, u32 stride) {
    const int holder = group() * 4 + thread_index() % panel::kPhaseLanes / 2;
    SPARSMITH_UNROLL for (int e = 0; e < 4; ++e) {
      const SharedAddress row = panel::Entry<Value>::row(step, e, rows);
      const float weight = panel::Entry<Value>::weight_of(shuffle_index(step[e] >> 16, holder));
      SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
        const auto tokens = load_shared<typename Row::Tokens>(advanced(row, p * stride));
        float x[Row::kTokens];
        SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; ++t) x[t] = to_float(tokens[t]);
        sums.add(p, weight, x);
      }
    }
  }

  template <class Sums>
  SPARSMITH_DEVICE void put(const Slots& slots, const Sums& to) {
    // The lanes of a segment are those of one group in quarters kGroups apart.
    SPARSMITH_UNROLL for (int distance = kGroups; distance < 4; distance *= 2) {
      const int other = quarter() ^ distance;
      const int partner = other * panel::kPhaseLanes + (group() + 8 - 2 * other) % panel::kPhaseLanes;
      SPARSMITH_UNROLL for (int i = 0; i < kPanels * Row::kTokens; ++i) {
        float& sum = sums.values[i / Row::kTokens][i % Row::kTokens];
        sum += float_from_bits(shuffle_index(bits_of_float(sum), partner));
      }
    }
    if (quarter() >= kGroups || slots[0] == panel::kNoSlot) {
      // Nothing, or another lane does it.
    } else if (Sums::is_row(slots[0])) {
      SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) to.store_row(slots[0], p * Row::kTokens, sums.values[p]);
    } else {
      SPARSMITH_UNROLL for (int i = 0; i < kPanels * Row::kTokens; ++i) {
        *to.slot(slots[0], i) = sums.values[i / Row::kTokens][i % Row::kTokens];
      }
    }
    sums.clear();
  }

 private:
  static SPARSMITH_DEVICE int quarter() { return thread_index() % panel::kWarpLanes / panel::kPhaseLanes; }
  static SPARSMITH_DEVICE int group() { return (thread_index() + 2 * quarter()) % panel::kPhaseLanes; }
};

}  // namespace sparsmith
