#include "formats/slots_tiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "formats/slots_steps.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kPadding = -1;  // instead of a nonzero

// Nonzeros of a row that are neighbours: as many as a lane's tile takes.
struct SlotTile {
  std::int64_t first = 0;  // in the matrix's arrays
  std::int64_t count = 0;
};

// The order of a row's tiles, where nonzeros stand in the order of their columns: a lane's tile may be any of its
// row's. The order is chosen so that the 32 gathers of a step meet different banks of shared memory where they can.
//
// By simulation at 8192 columns in fp16, 50 / 80 / 90 % zeros: 2.4 / 2.7 / 2.8 words of the fullest bank, and 3.4
// to 3.7 in the order of columns. The fewer tiles are left of a row, the less there is to choose from.
class SlotTileOrder {
 public:
  static constexpr int kBanks = 32;
  static constexpr std::uint8_t kNoBank = kBanks;  // of a place that gathers nothing worth counting

  SlotTileOrder(int vector_width, int tiles_per_slot)
      : vector_width_(vector_width), tiles_per_slot_(tiles_per_slot), costs_(vector_width * tiles_per_slot) {}

  // Puts the tiles of a part's next row in order, empty ones included.
  //   banks: [tiles][V], what each place gathers from; moves along with its tile.
  void order_row(std::span<SlotTile> tiles, std::span<std::uint8_t> banks) {
    switch (vector_width_) {
      case 4: order_row_of<4>(tiles, banks); break;
      case 8: order_row_of<8>(tiles, banks); break;
      case 16: order_row_of<16>(tiles, banks); break;
      default: order_row_of<32>(tiles, banks);
    }
  }

 private:
  static constexpr std::int64_t kChoices = 64;  // tiles that are looked at for a lane: more gain little
  // Of a gather from a bank that so many lanes use already. A third one makes most steps longer, a second hardly any.
  static constexpr std::uint16_t kCosts[] = {1, 4, 32, 256, 1024, 2048};
  // Of one step of a group: what another gather from a bank costs.
  using Costs = std::array<std::uint16_t, 2 * kBanks>;  // kNoBank among them

  static std::uint16_t next_cost(std::uint16_t cost) {
    const auto* const next = std::ranges::upper_bound(kCosts, cost);
    return next == std::end(kCosts) ? cost : *next;
  }

  template <int kWidth>
  void order_row_of(std::span<SlotTile> tiles, std::span<std::uint8_t> banks) {
    for (std::size_t i = 0; i < tiles.size(); ++i, ++next_) {
      if (next_ % (slots::kLanes * tiles_per_slot_) == 0) {
        Costs fresh;
        fresh.fill(kCosts[0]);
        fresh[kNoBank] = 0;
        std::fill(costs_.begin(), costs_.end(), fresh);
      }
      Costs* steps = costs_.data() + next_ % tiles_per_slot_ * kWidth;
      const std::size_t best = i + static_cast<std::size_t>(cheapest<kWidth>(steps, banks.subspan(i * kWidth)));
      std::uint8_t* at = banks.data() + i * kWidth;
      if (best != i) {
        std::swap(tiles[i], tiles[best]);
        std::swap_ranges(at, at + kWidth, banks.data() + best * kWidth);
      }
      for (int e = 0; e < kWidth; ++e)
        if (at[e] != kNoBank) steps[e][at[e]] = next_cost(steps[e][at[e]]);
    }
  }

  // Which of the next tiles: the first that costs least.
  template <int kWidth>
  static std::int64_t cheapest(const Costs* steps, std::span<const std::uint8_t> banks) {
    const std::int64_t choices = std::min(kChoices, std::ssize(banks) / kWidth);
    std::int64_t best = 0;
    unsigned least = ~0U;
    for (std::int64_t choice = 0; choice < choices && least > kWidth * kCosts[0]; ++choice) {
      const std::uint8_t* of_choice = banks.data() + choice * kWidth;
      unsigned cost = 0;
      for (int e = 0; e < kWidth / 2; ++e) cost += steps[e][of_choice[e]];
      if (cost >= least) continue;
      for (int e = kWidth / 2; e < kWidth; ++e) cost += steps[e][of_choice[e]];
      if (cost >= least) continue;
      least = cost;
      best = choice;
    }
    return best;
  }

  int vector_width_;
  std::int64_t tiles_per_slot_;
  std::int64_t next_ = 0;     // tile of the part
  std::vector<Costs> costs_;  // [P][V], of the group that is being filled
};

constexpr int kBanks = SlotTileOrder::kBanks;

// What 32 lanes hold of a group: nonzeros by index in the matrix's arrays, or kPadding.
class Steps {
 public:
  explicit Steps(int count) : count_(count), nonzeros_(static_cast<std::size_t>(count) * slots::kLanes) {}

  int count() const { return count_; }
  void clear() { std::ranges::fill(nonzeros_, kPadding); }
  std::int64_t* of_lane(int lane) { return nonzeros_.data() + static_cast<std::ptrdiff_t>(lane) * count_; }
  const std::int64_t* of_lane(int lane) const { return nonzeros_.data() + static_cast<std::ptrdiff_t>(lane) * count_; }

 private:
  int count_;                           // V * P
  std::vector<std::int64_t> nonzeros_;  // [lane][count]
};

// Writes and orders the nonzeros of one part.
class PartWriter {
 public:
  PartWriter(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type, std::span<const SlotRow> rows,
             std::span<std::byte> part)
      : matrix_(matrix),
        packing_(packing),
        type_(type),
        size_(packing, type),
        value_bytes_(static_cast<int>(size_of(type))),
        rows_(rows),
        part_(part),
        steps_(packing.vector_width * packing.tiles_per_slot) {}

  void write(std::int64_t groups) {
    const bool free_order = longest_step(packing_.columns) == 0;
    if (free_order) {
      fill_buckets();
    } else {
      cut_tiles();
    }
    for (std::int64_t group = 0; group < groups; ++group) {
      steps_.clear();
      if (free_order) {
        take_by_bank(group);
      } else {
        take_tiles(group);
      }
      for (int tile = 0; tile < packing_.tiles_per_slot; ++tile)
        write_tile(tile, part_.data() + (group * packing_.tiles_per_slot + tile) * size_.tile());
    }
  }

 private:
  std::uint32_t column(std::int64_t nonzero) const { return matrix_.column_indices[nonzero]; }

  // The bank of shared memory in which a column of x lies.
  std::uint8_t bank_of(std::uint32_t column) const {
    return static_cast<std::uint8_t>(column * static_cast<std::uint32_t>(value_bytes_) / 4 % kBanks);
  }
  int bank(std::int64_t nonzero) const { return bank_of(column(nonzero)); }

  // ---- uint16, uint32: a row's nonzeros may stand in any of its slots ----

  // What is left of a row, by bank.
  struct Buckets {
    std::array<std::uint32_t, kBanks> first{};  // in `sorted_`, from the row's first nonzero
    std::array<std::uint32_t, kBanks> end{};
    std::uint32_t filled = 0;     // bit b: bank b is not empty
    std::int64_t left = 0;        // nonzeros
    std::int64_t steps_left = 0;  // places for them
  };

  void fill_buckets() {
    std::int64_t part_slots = 0;
    std::int64_t nonzeros = 0;
    for (const SlotRow& row : rows_) {
      part_slots += row.slots;
      nonzeros += row.length;
    }
    row_of_slot_.reserve(part_slots);
    sorted_.reserve(nonzeros);
    for (const SlotRow& row : rows_) {
      row_of_slot_.insert(row_of_slot_.end(), static_cast<std::size_t>(row.slots),
                          static_cast<std::int64_t>(buckets_.size()));
      Buckets& buckets = buckets_.emplace_back();
      std::array<std::uint32_t, kBanks> count{};
      for (std::int64_t i = row.first; i < row.first + row.length; ++i) ++count[bank(i)];
      auto next = static_cast<std::uint32_t>(sorted_.size());
      for (int b = 0; b < kBanks; ++b) {
        buckets.first[b] = buckets.end[b] = next;
        next += count[b];
        if (count[b] > 0) buckets.filled |= 1U << b;
      }
      sorted_.resize(next);
      for (std::int64_t i = row.first; i < row.first + row.length; ++i) sorted_[buckets.end[bank(i)]++] = i;
      buckets.left = row.length;
      buckets.steps_left = row.slots * packing_.vector_width * packing_.tiles_per_slot;
    }
  }

  // A nonzero of the row whose bank nobody uses in this step, from the fullest such bucket; where there is none,
  // padding if the row has places to spare, otherwise any.
  std::int64_t take(Buckets& buckets, std::uint32_t& used) {
    const bool spare = buckets.steps_left-- > buckets.left;
    if (buckets.left == 0) return kPadding;
    std::uint32_t open = buckets.filled & ~used;
    if (open == 0 && spare) return kPadding;
    if (open == 0) open = buckets.filled;
    int best = std::countr_zero(open);
    for (std::uint32_t rest = open; rest != 0; rest &= rest - 1) {
      const int b = std::countr_zero(rest);
      if (buckets.end[b] - buckets.first[b] > buckets.end[best] - buckets.first[best]) best = b;
    }
    used |= 1U << best;
    --buckets.left;
    const std::int64_t taken = sorted_[buckets.first[best]++];
    if (buckets.first[best] == buckets.end[best]) buckets.filled &= ~(1U << best);
    return taken;
  }

  void take_by_bank(std::int64_t group) {
    for (int step = 0; step < steps_.count(); ++step) {
      std::uint32_t used = 0;
      for (int i = 0; i < slots::kLanes; ++i) {
        const int lane = (i + 5 * step) % slots::kLanes;  // each lane is among the first at times
        const std::int64_t slot = group * slots::kLanes + lane;
        if (slot < std::ssize(row_of_slot_)) steps_.of_lane(lane)[step] = take(buckets_[row_of_slot_[slot]], used);
      }
    }
  }

  // ---- distances: the nonzeros of a tile are neighbours in their row ----

  void cut_tiles() {
    SlotTileOrder order(packing_.vector_width, packing_.tiles_per_slot);
    std::vector<std::uint8_t> banks;  // of a row
    for (const SlotRow& row : rows_) {
      const std::span columns(matrix_.column_indices.data() + row.first, static_cast<std::size_t>(row.length));
      const std::size_t begin = tiles_.size();
      const std::size_t end = begin + static_cast<std::size_t>(row.slots * packing_.tiles_per_slot);
      for (std::int64_t at = 0; at < row.length;) {
        const std::int64_t next = tile_end(packing_, columns, at);
        tiles_.push_back({row.first + at, next - at});
        at = next;
      }
      tiles_.resize(end);
      if (packing_.columns == SlotColumns::kOffset8) continue;  // whose order inside a tile does more
      banks.clear();
      for (std::size_t i = begin; i < end; ++i) append_banks(tiles_[i], banks);
      order.order_row(std::span(tiles_).subspan(begin), banks);
    }
  }

  // What of a tile's padding stands before its first nonzero.
  std::int64_t padding_before(const SlotTile& tile) const {
    if (packing_.columns != SlotColumns::kDelta3 || tile.count == 0) return 0;
    std::int64_t left = packing_.vector_width - tile.count;
    for (std::int64_t i = tile.first + 1; i < tile.first + tile.count; ++i)
      left -= padding_of(packing_.columns, column(i) - column(i - 1));
    return std::max<std::int64_t>(0, column(tile.first + tile.count - 1) + left + 1 - matrix_.cols);
  }

  // The banks of a tile's places, with those of padding between nonzeros.
  void append_banks(const SlotTile& tile, std::vector<std::uint8_t>& banks) const {
    const std::size_t end = banks.size() + static_cast<std::size_t>(packing_.vector_width);
    banks.resize(banks.size() + static_cast<std::size_t>(padding_before(tile)), SlotTileOrder::kNoBank);
    for (std::int64_t i = tile.first; i < tile.first + tile.count; ++i) {
      const std::int64_t padding = i == tile.first ? 0 : padding_of(packing_.columns, column(i) - column(i - 1));
      for (std::int64_t pad = 1; pad <= padding; ++pad)
        banks.push_back(bank_of(column(i - 1) + static_cast<std::uint32_t>(pad * longest_step(packing_.columns))));
      banks.push_back(bank_of(column(i)));
    }
    banks.resize(end, SlotTileOrder::kNoBank);
  }

  void take_tiles(std::int64_t group) {
    for (int lane = 0; lane < slots::kLanes; ++lane) {
      for (int t = 0; t < packing_.tiles_per_slot; ++t) {
        const std::int64_t tile = (group * slots::kLanes + lane) * packing_.tiles_per_slot + t;
        if (tile >= std::ssize(tiles_)) continue;
        std::int64_t* to = steps_.of_lane(lane) + t * packing_.vector_width + padding_before(tiles_[tile]);
        for (std::int64_t i = tiles_[tile].first; i < tiles_[tile].first + tiles_[tile].count; ++i) {
          if (i > tiles_[tile].first) to += padding_of(packing_.columns, column(i) - column(i - 1));
          *to++ = i;
        }
      }
    }
    if (packing_.columns == SlotColumns::kOffset8) {
      for (int t = 0; t < packing_.tiles_per_slot; ++t) spread_banks(t * packing_.vector_width);
    }
  }

  // Swaps nonzeros within a lane's tile, all but the first, until a step's banks differ where they can.
  void spread_banks(int first) {
    for (int e = 1; e < packing_.vector_width; ++e) {
      std::uint32_t used = 0;
      for (int i = 0; i < slots::kLanes; ++i) {
        std::int64_t* const nonzeros = steps_.of_lane((i + 5 * e) % slots::kLanes) + first;
        if (nonzeros[e] == kPadding) continue;
        for (int other = e; other < packing_.vector_width && nonzeros[other] != kPadding; ++other) {
          if ((used >> bank(nonzeros[other]) & 1U) != 0) continue;
          std::swap(nonzeros[e], nonzeros[other]);
          break;
        }
        used |= 1U << bank(nonzeros[e]);
      }
    }
  }

  // ---- bytes ----

  void write_tile(int tile, std::byte* to) const {
    const std::uint32_t padding = pads_long_steps(packing_.columns) ? 1U << (8 * value_bytes_ - 1) : 0;  // or -0
    std::byte* const columns = to + slots::kLanes * size_.values;
    std::byte* const bases = columns + slots::kLanes * size_.columns;
    for (int lane = 0; lane < slots::kLanes; ++lane) {
      const std::span nonzeros(steps_.of_lane(lane) + tile * packing_.vector_width, packing_.vector_width);
      LaneBytes values{};
      for (std::size_t e = 0; e < nonzeros.size(); ++e)
        put(nonzeros[e] == kPadding ? padding : value_bits(matrix_.values[nonzeros[e]], type_), e, value_bytes_,
            values);
      store_lane(values, lane, size_.values, to);
      LaneBytes of_columns{};
      const std::uint16_t base = write_columns(nonzeros, of_columns);
      store_lane(of_columns, lane, size_.columns, columns);
      if (size_.base > 0) std::memcpy(bases + lane * sizeof base, &base, sizeof base);
    }
  }

  // The values, or the columns, of a lane's tile.
  using LaneBytes = std::array<std::byte, 32 * sizeof(std::uint32_t)>;

  // The low bytes of `value` as element `e` of the lane.
  static void put(std::uint32_t value, std::size_t e, int bytes, LaneBytes& lane) {
    std::memcpy(lane.data() + e * bytes, &value, bytes);
  }

  static void store_lane(const LaneBytes& from, int lane, int lane_bytes, std::byte* to) {
    each_piece(lane, lane_bytes,
               [&](int at, int in_tile, auto size) { std::memcpy(to + in_tile, from.data() + at, size); });
  }

  // Returns the base.
  std::uint16_t write_columns(std::span<const std::int64_t> nonzeros, LaneBytes& to) const {
    const SlotColumns kind = packing_.columns;
    const auto first = std::ranges::find_if(nonzeros, [](std::int64_t each) { return each != kPadding; });
    if (longest_step(kind) == 0) {
      for (std::size_t e = 0; e < nonzeros.size(); ++e)
        put(nonzeros[e] == kPadding ? static_cast<std::uint32_t>(matrix_.cols) : column(nonzeros[e]), e,
            slot_columns_kind(kind).bits / 8, to);
      return 0;
    }
    if (first == nonzeros.end()) return 0;  // zeros, as they are
    std::uint32_t at = column(*first);
    const auto base = static_cast<std::uint16_t>(at - (first - nonzeros.begin()));
    if (!pads_long_steps(kind)) {
      const auto last = std::ranges::find(nonzeros, kPadding);
      put(static_cast<std::uint32_t>(last - first), 0, 1, to);  // how many
      for (auto e = first + 1; e < last; ++e)
        put(column(*e) - column(kind == SlotColumns::kDelta8 ? e[-1] : *first), e - first, 1, to);
      return base;
    }
    std::size_t end = nonzeros.size();
    while (nonzeros[end - 1] == kPadding) --end;
    LaneBytes steps{};  // a byte each
    for (std::size_t e = first - nonzeros.begin() + 1; e < end; ++e) {
      const std::uint32_t step =
          nonzeros[e] == kPadding ? static_cast<std::uint32_t>(longest_step(kind)) : column(nonzeros[e]) - at;
      put(step - least_step(kind), e, 1, steps);
      at += step;
    }
    std::array<std::uint32_t, 32> words{};
    for (int group = 0; group < packing_.vector_width / 4; ++group) {
      std::uint32_t four = 0;
      std::memcpy(&four, steps.data() + 4 * group, sizeof four);
      put_four_steps(kind, words.data(), group, four);
    }
    std::memcpy(to.data(), words.data(), sizeof words);
    return base;
  }

  const CsrMatrix& matrix_;
  const SlotsPacking& packing_;
  DataType type_;
  SlotTileSize size_;
  const int value_bytes_;
  std::span<const SlotRow> rows_;
  std::span<std::byte> part_;
  Steps steps_;  // of the group that is being written
  std::vector<std::int64_t> row_of_slot_;
  std::vector<Buckets> buckets_;
  std::vector<std::int64_t> sorted_;  // nonzeros of the part, by row and bank
  std::vector<SlotTile> tiles_;       // distances: [slots * P]
};

}  // namespace

SlotTileSize::SlotTileSize(const SlotsPacking& packing, DataType type)
    : values(packing.vector_width * static_cast<int>(size_of(type))),
      columns(packing.vector_width * slot_columns_kind(packing.columns).bits / 8),
      base(longest_step(packing.columns) > 0 ? 2 : 0) {}

std::int64_t tile_end(const SlotsPacking& packing, std::span<const std::uint32_t> columns, std::int64_t begin) {
  const std::int64_t last = std::min<std::int64_t>(begin + packing.vector_width, std::ssize(columns));
  if (longest_step(packing.columns) == 0) return last;
  std::int64_t end = begin + 1;
  if (pads_long_steps(packing.columns)) {
    std::int64_t left = packing.vector_width - 1;  // places
    while (end < last) {
      left -= padding_of(packing.columns, columns[end] - columns[end - 1]) + 1;
      if (left < 0) break;
      ++end;
    }
    // Tiles of 32 neighbours would begin at multiples of 32 columns, in few banks: with a nonzero less they do not.
    constexpr std::int64_t kWide = 32;
    if (end - begin == kWide && columns[end - 1] - columns[begin] == kWide - 1) --end;
    return end;
  }
  const bool delta = packing.columns == SlotColumns::kDelta8;
  while (end < last && columns[end] - columns[delta ? end - 1 : begin] <= slots::kMaxStep) ++end;
  return end;
}

void write_part(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type, std::span<const SlotRow> rows,
                std::int64_t groups, std::span<std::byte> part) {
  PartWriter(matrix, packing, type, rows, part).write(groups);
}

}  // namespace sparsmith
