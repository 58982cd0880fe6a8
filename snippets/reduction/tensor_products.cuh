// Products of a step by tensor cores, for 16-bit values: 32 entries, one per lane, in one gather and one or two
// multiplications.
//
// ldmatrix takes an address from each lane and loads 32 panel rows as the B operands of two mma.m16n8k16, or of one
// mma.sp.m16n8k32: entry k is row k of B. A is a diagonal of the weights, up to a permutation, so that each entry goes
// to the sums of its own segment. So a lane spends no instructions on conversions or products, and only computes its
// own address. Most of the products of an mma are with zeros; the tensor cores have them to spare. If a segment has
// several lanes, its entries share a row of A, and 16 rows are enough. Each aligned group of four columns has one entry
// of a row, so A is as sparse as mma.sp requires.
//
// The other products are 0 * x. They are 0 unless some x is Inf or NaN. Then sums become NaN, which put() reports.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_input.cuh"
#include "snippets/prolog/panel_stream.cuh"
#include "snippets/reduction/panel_sums.cuh"
#include "snippets/reduction/plain_products.cuh"

namespace sparsmith {

namespace panel {

// Lane 8 j + r gathers row r of matrix j, which is entry 8 j + r, for the segment of group g in quarter j of the sums.
// Another lane holds its weight: the one that has its place in A.
//   dense    g = (r + 2 j) % 8; the lane 4 g + t where r = 2 t + g % 2
//   sparse   g = r ^ 4 (j / 2); the lane 4 g + t where t = 2 (j % 2) + r / 4: its row is g + 8 (j % 2), its group of
//            four columns is t + 4 (j / 2), and in that it is column r % 4 = g % 4. Quarters j and j + 2 have the
//            same sums.
template <int kLanes>
struct TensorOrder {
  static constexpr bool kSparse = tensor_order(kLanes) == LaneOrder::kSparseTensor;
  static constexpr int kQuarters = kSparse ? 2 : 4;  // of the sums

  static SPARSMITH_DEVICE int group(int quarter, int row) {
    return kSparse ? row ^ quarter / 2 * 4 : (row + 2 * quarter) % kPhaseLanes;
  }
  static SPARSMITH_DEVICE int row(int quarter, int group) {
    return kSparse ? group ^ quarter / 2 * 4 : (group + kPhaseLanes - 2 * quarter) % kPhaseLanes;
  }
  static SPARSMITH_DEVICE int holder(int quarter, int row) {
    return group(quarter, row) * 4 + (kSparse ? quarter % 2 * 2 + row / 4 : row / 2);
  }
};

}  // namespace panel

// Each lane gathers for one entry and holds the weight of another, by TensorOrder. It has the sums of two tokens of a
// segment, or of several segments.
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
  using Order = panel::TensorOrder<kLanes>;
  struct Slots {  // of the segments whose sums a lane holds; two in a word, so that they wait in few registers
    Vector<u32, (kGroups + 1) / 2> words;
    SPARSMITH_DEVICE u32 operator[](int g) const { return g % 2 == 0 ? words[g / 2] & 0xFFFFU : words[g / 2] >> 16; }
  };

  float sums[kPanels][Order::kQuarters / 2][4];  // quarters 0 and 1, 2 and 3: two tokens each
  u32 place[4];                                  // where a weight goes in A of each quarter
  u32 metadata;                                  // of a sparse A

  SPARSMITH_DEVICE void begin() {
    // (Not before the panel is filled, because registers are short there.)
    const int lane = static_cast<int>(known_here(static_cast<u32>(thread_index() % panel::kWarpLanes)));
    const int group = lane / 4;
    const int pair = lane % 4;
    const int quarter = !Order::kSparse             ? (group / 2 + 4 - pair) % 4
                        : (group / 4) == (pair % 2) ? pair / 2
                                                    : pair / 2 + 2;
    // All entries of a row of A are the same column of their groups of four. The metadata names two columns, in
    // ascending order.
    const int column = group % 4;
    const bool second = Order::kSparse ? column == 3 : group % 2 != 0;
    metadata = (column < 3 ? column | (column + 1) << 2 : 2 | 3 << 2) * 0x11111111U;
    SPARSMITH_UNROLL for (int j = 0; j < 4; ++j) place[j] = j != quarter ? 0x4444U : second ? 0x3244U : 0x4432U;
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
        SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) add(step[first + e], p, gathered[e][p]);
      }
    }
  }

  // Adds the products of 32 entries with their rows of panel p. `entry`: the lane's entry.
  SPARSMITH_DEVICE void add(u32 entry, int p, const u32 (&rows)[4]) {
    u32 weights[4];
    SPARSMITH_UNROLL for (int j = 0; j < 4; ++j) weights[j] = permute_bytes(entry, 0, place[j]);
    if constexpr (Order::kSparse) {
      SparseTensorMultiply<Value>::template add<0>(sums[p][0], weights, rows, metadata);
    } else {
      SPARSMITH_UNROLL for (int q = 0; q < 2; ++q) {
        const u32 diagonal[4] = {weights[2 * q], 0, 0, weights[2 * q + 1]};
        TensorMultiply<Value>::add(sums[p][q], diagonal, rows[2 * q], rows[2 * q + 1]);
      }
    }
  }

  // Ends a task: its sums go to their slots [kTokens], and the next one begins at 0. Every lane of the warp calls it.
  template <class Sums>
  SPARSMITH_DEVICE void put(const Slots& slots, const Sums& to) {
    float check = 0.0F;
    SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
      SPARSMITH_UNROLL for (int i = 0; i < kHeld; ++i) check = multiply_add(sums[p][i / 4][i % 4], 0.0F, check);
    }
    if (check != 0.0F) atomic_add(to.infinite, 1.0F);
    const int first_token = thread_index() % 4 * 2;
    SPARSMITH_UNROLL for (int g = 0; g < kGroups; ++g) {
      if (slots[g] == panel::kNoSlot) continue;
      SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
        float pair[2] = {};
        SPARSMITH_UNROLL for (int quarter = g; quarter < Order::kQuarters; quarter += kGroups) {
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
  static constexpr int kHeld = 2 * Order::kQuarters;  // sums of a panel

  SPARSMITH_DEVICE void clear() {
    SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
      SPARSMITH_UNROLL for (int i = 0; i < kHeld; ++i) sums[p][i / 4][i % 4] = 0.0F;
    }
  }
};

// Computes the same as TensorProducts from the same steps, each lane for itself: correct whatever X holds.
template <class Value, int kLanes_, int kPanels_>
struct TensorFallback {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)
  SPARSMITH_TUNE(kPanels_, 1, 2, 4)

  static constexpr int kLanes = kLanes_;
  static constexpr int kPanels = kPanels_;
  static constexpr int kSegments = panel::kWarpLanes / kLanes;
  static constexpr int kGroups = kSegments / panel::kPhaseLanes;
  using Order = panel::TensorOrder<kLanes>;
  using Row = panel::Row<Value>;
  using Slots = Vector<u16, 1>;

  RegisterSums<kPanels, Row::kTokens> sums;

  SPARSMITH_DEVICE void begin() { sums.clear(); }

  static SPARSMITH_DEVICE Slots slots(const u16* task_slots, u32 task) {
    const int segment = group() * kGroups + quarter() % kGroups;
    return load_cached(reinterpret_cast<const Slots*>(task_slots + static_cast<i64>(task) * kSegments + segment));
  }

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress rows, u32 stride) {
    const int holder = Order::holder(quarter(), thread_index() % panel::kPhaseLanes);
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
      const int partner = other * panel::kPhaseLanes + Order::row(other, group());
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
  static SPARSMITH_DEVICE int group() { return Order::group(quarter(), thread_index() % panel::kPhaseLanes); }
};

}  // namespace sparsmith
