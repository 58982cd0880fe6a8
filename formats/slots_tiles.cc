#include "formats/slots_tiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "formats/slots_steps.h"
#include "formats/slots_tile_order.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kPadding = -1;  // instead of a nonzero
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
    const bool free_order = packing_.columns == SlotColumns::kUint16 || packing_.columns == SlotColumns::kUint32;
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
    row_of_slot_.reserve(static_cast<std::size_t>(part_slots));
    sorted_.reserve(static_cast<std::size_t>(nonzeros));
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
    std::byte* columns = to + slots::kLanes * size_.values;
    std::byte* bases = columns + slots::kLanes * size_.columns;
    const int width = packing_.vector_width;
    for (int lane = 0; lane < slots::kLanes; ++lane) {
      const std::int64_t* const of_lane = steps_.of_lane(lane) + static_cast<std::ptrdiff_t>(tile) * width;
      const auto nonzero = [&](int e) { return of_lane[e]; };
      for (int e = 0; e < width; ++e) {
        if (nonzero(e) != kPadding) {
          write_value(to, lane, e, value_bits(matrix_.values[nonzero(e)], type_));
        } else if (pads_long_steps(packing_.columns)) {
          write_value(to, lane, e, minus_zero());
        }
      }
      switch (packing_.columns) {
        case SlotColumns::kUint16:
        case SlotColumns::kUint32:
          for (int e = 0; e < width; ++e)
            write_column(columns, lane, e,
                         nonzero(e) == kPadding ? static_cast<std::uint32_t>(matrix_.cols) : column(nonzero(e)));
          break;
        case SlotColumns::kDelta8:
        case SlotColumns::kOffset8: {
          if (nonzero(0) == kPadding) break;  // no nonzero: zeros, as they are
          const auto base = static_cast<std::uint16_t>(column(nonzero(0)));
          std::memcpy(bases + lane * sizeof base, &base, sizeof base);
          int count = 1;
          for (; count < width && nonzero(count) != kPadding; ++count) {
            const bool delta = packing_.columns == SlotColumns::kDelta8;
            write_column(columns, lane, count, column(nonzero(count)) - column(nonzero(delta ? count - 1 : 0)));
          }
          write_column(columns, lane, 0, static_cast<std::uint32_t>(count));
          break;
        }
        case SlotColumns::kDelta4:
        case SlotColumns::kDelta6:
        case SlotColumns::kDelta3: write_steps(columns, lane, nonzero);
      }
    }
  }

  // The base of a lane's tile, and distances with padding in between.
  template <class Nonzero>
  void write_steps(std::byte* columns, int lane, const Nonzero& nonzero) const {
    int last = packing_.vector_width - 1;
    while (last >= 0 && nonzero(last) == kPadding) --last;
    if (last < 0) return;  // no nonzero: zeros, as they are
    int first = 0;
    while (nonzero(first) == kPadding) ++first;
    std::uint32_t at = column(nonzero(first));
    const auto base = static_cast<std::uint16_t>(at - static_cast<std::uint32_t>(first));
    std::memcpy(columns + slots::kLanes * size_.columns + lane * sizeof base, &base, sizeof base);
    for (int e = first + 1; e <= last; ++e) {
      const std::uint32_t step =
          nonzero(e) == kPadding ? static_cast<std::uint32_t>(longest_step(packing_.columns)) : column(nonzero(e)) - at;
      write_step(packing_.columns, columns, lane, e, size_.columns, step);
      at += step;
    }
  }

  void write_value(std::byte* to, int lane, int e, std::uint32_t bits) const {
    store(to + interleaved_at(lane, e * value_bytes_, size_.values), bits, value_bytes_);
  }

  std::uint32_t minus_zero() const { return 1U << (8 * value_bytes_ - 1); }

  // The low bytes of `value`, in the columns' width.
  void write_column(std::byte* to, int lane, int e, std::uint32_t value) const {
    const int bytes = size_.columns / packing_.vector_width;
    store(to + interleaved_at(lane, e * bytes, size_.columns), value, bytes);
  }

  // The low bytes of `value`: four, two or one.
  static void store(std::byte* to, std::uint32_t value, int bytes) {
    if (bytes == 2) {
      const auto half = static_cast<std::uint16_t>(value);
      std::memcpy(to, &half, sizeof half);
    } else if (bytes == 4) {
      std::memcpy(to, &value, sizeof value);
    } else {
      *to = static_cast<std::byte>(value);
    }
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
    : values(packing.vector_width * static_cast<int>(size_of(type))) {
  switch (packing.columns) {
    case SlotColumns::kUint16: columns = packing.vector_width * 2; break;
    case SlotColumns::kUint32: columns = packing.vector_width * 4; break;
    case SlotColumns::kDelta8:
    case SlotColumns::kOffset8:
      columns = packing.vector_width;
      base = 2;
      break;
    case SlotColumns::kDelta4:
      columns = packing.vector_width / 2;
      base = 2;
      break;
    case SlotColumns::kDelta6:
      columns = packing.vector_width / 4 * 3;
      base = 2;
      break;
    case SlotColumns::kDelta3:
      columns = packing.vector_width / 8 * 3;
      base = 2;
      break;
  }
}

std::int64_t tile_end(const SlotsPacking& packing, std::span<const std::uint32_t> columns, std::int64_t begin) {
  const std::int64_t last = std::min<std::int64_t>(begin + packing.vector_width, std::ssize(columns));
  if (packing.columns == SlotColumns::kUint16 || packing.columns == SlotColumns::kUint32) return last;
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
