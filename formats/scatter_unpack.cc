// From the scatter format back to rows.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/ceil_div.h"
#include "formats/packed_reader.h"
#include "formats/row_parts.h"
#include "formats/scatter.h"
#include "formats/scatter_layout.h"
#include "formats/scatter_rounds.h"

namespace sparsmith {
namespace {

using scatter::kLanes;
using scatter::kTileElements;

std::optional<ScatterPacking> packing_named(std::string_view name) {
  for (const ScatterEntry entry : {ScatterEntry::kByte, ScatterEntry::kWord})
    for (const int tile_rows : {16, 32, 64})
      for (int min_rounds = 0; min_rounds <= 64; min_rounds += 4)
        for (const ScatterColumns columns : {ScatterColumns::kFragments, ScatterColumns::kNatural})
          if (const ScatterPacking packing{entry, tile_rows, min_rounds, columns}; packing.name() == name)
            return packing;
  return std::nullopt;
}

// A tile that entries are stored to.
class DenseTile {
 public:
  void clear() {
    nonzeros_.fill(0);
    wrong_ = 0;
  }
  // A nonzero; may be stored again if `again`.
  void store(std::uint32_t index, std::uint32_t value, bool again) {
    std::uint64_t& word = nonzeros_[index / 64];
    const std::uint64_t bit = std::uint64_t{1} << index % 64;
    wrong_ |= static_cast<std::uint32_t>((word & bit) != 0 && !(again && value == values_[index]));
    word |= bit;
    values_[index] = static_cast<std::uint16_t>(value);
  }
  bool holds(std::uint32_t index) const { return (nonzeros_[index / 64] >> index % 64 & 1U) != 0; }
  // Whether no element has two values.
  bool is_sound() const { return wrong_ == 0; }
  void add_to(UnitRows& rows, std::size_t tile_rows, std::uint32_t first_column) const {
    const std::size_t words = nonzeros_.size() / tile_rows;  // of a row
    for (std::size_t w = 0; w < nonzeros_.size(); ++w) {
      if (nonzeros_[w] == 0) continue;
      UnitRows::Entry* to = rows.room(w / words, 64);
      const auto column = static_cast<std::uint32_t>(first_column + w % words * 64);
      for (std::uint64_t word = nonzeros_[w]; word != 0; word &= word - 1) {
        const auto bit = static_cast<std::uint32_t>(std::countr_zero(word));
        *to++ = {column + bit, values_[w * 64 + bit]};
      }
      rows.take(w / words, to);
    }
  }

 private:
  std::array<std::uint64_t, kTileElements / 64> nonzeros_;
  std::array<std::uint16_t, kTileElements> values_;
  std::uint32_t wrong_;
};

class ScatterReader : public PackedReader {
 public:
  ScatterReader(const PackedView& view, const ScatterPacking& packing, PackedParts& parts)
      : packing_(packing),
        row_blocks_(ceil_div(view.rows, packing.tile_rows)),
        column_tiles_(ceil_div(view.cols, packing.tile_columns())),
        tiles_(row_blocks_ * column_tiles_),
        facts_(view.facts == nullptr ? Facts() : *view.facts),
        fixed_(scatter::fixed_words(packing)),
        places_(scatter::fixed_places(packing)),
        indices_(scatter::element_indices(packing)) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    parts.expect_fact("row_blocks", row_blocks_);
    parts.expect_fact("column_tiles", column_tiles_);
    for (const char* counted : {"rounds", "rounds_p5", "rounds_p95", "rounds_max", "padding"})
      parts.fact(counted, 0, kMost);
    entries_ = parts.array<std::uint32_t>("entries", DataType::kUint32, tiles_ * fixed_ * kLanes);
    more_ = parts.array<std::uint32_t>("more_entries", DataType::kUint32);
    more_offsets_ = parts.array<std::uint32_t>("more_offsets", DataType::kUint32, tiles_ + 1);
    row_parts_ = parts.array<std::uint32_t>("row_parts", DataType::kUint32, row_blocks_ * row_parts());
  }

  Status check_bounds(int threads) override {
    if (more_offsets_[0] != 0 || std::int64_t{more_offsets_[tiles_]} * kLanes != more_.size())
      return invalid_input("more_offsets does not share out more_entries");
    SPARSMITH_RETURN_IF_ERROR(check_row_parts(row_parts_));
    SPARSMITH_RETURN_IF_ERROR(check_ranges(tiles_, 4096, threads, [&](std::int64_t begin, std::int64_t end) -> Status {
      for (std::int64_t tile = begin; tile < end; ++tile) {
        const std::uint32_t first = more_offsets_[tile];
        const std::uint32_t last = more_offsets_[tile + 1];
        if (first > last || last > more_offsets_[tiles_] ||
            (packing_.entry == ScatterEntry::kByte && (fixed_ + last - first) % 3 == 1))
          return invalid_input(fmt::format("more_offsets: tile {} has lines {} to {}", tile, first, last));
        if (packing_.entry == ScatterEntry::kByte && !last_lane_inside(tile))
          return invalid_input(fmt::format("tile {}: an entry lies outside", tile));
      }
      return {};
    }));
    if (packing_.entry == ScatterEntry::kByte) return {};
    for (const Elements<std::uint32_t>* words : {&entries_, &more_})
      SPARSMITH_RETURN_IF_ERROR(check_ranges(
          words->size(), std::int64_t{1} << 18, threads, [&](std::int64_t begin, std::int64_t end) -> Status {
            std::uint32_t bits = 0;
            for (std::int64_t i = begin; i < end; ++i) bits |= (*words)[i];
            constexpr std::uint32_t kOutside = 0xFFFFFFFFU & ~((scatter::kTileBytes - 2U) << 16 | 0xFFFFU);
            if ((bits & kOutside) == 0) return {};
            return invalid_input(fmt::format("an entry of words {} to {} lies outside of its tile", begin, end - 1));
          }));
    return {};
  }

  std::int64_t units() const override { return row_blocks_; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(unit, packing_.tile_rows);
    DenseTile dense;
    for (std::int64_t t = 0; t < column_tiles_; ++t) {
      const std::int64_t tile = unit * column_tiles_ + t;
      dense.clear();
      const bool whole = packing_.entry == ScatterEntry::kByte ? store_bytes(tile, dense) : store_words(tile, dense);
      if (!whole || !dense.is_sound())
        return invalid_input(
            fmt::format("tile {}: two entries store to one element, or padding is where no packer puts it", tile));
      dense.add_to(rows, static_cast<std::size_t>(packing_.tile_rows),
                   static_cast<std::uint32_t>(t * packing_.tile_columns()));
    }
    return rows.store(rows_of_block(row_parts_, unit, row_parts()));
  }

  Status check_whole(const UnpackedRows& rows) const override {
    std::vector<std::int64_t> rounds(tiles_);
    for (std::int64_t tile = 0; tile < tiles_; ++tile)
      rounds[tile] = scatter_rounds(packing_.entry, fixed_ + more_offsets_[tile + 1] - more_offsets_[tile]);
    if (scatter::facts_of(std::move(rounds), row_blocks_, column_tiles_, rows.nnz()) != facts_)
      return invalid_input("facts count other rounds and padding than there are");
    return check_dealt_parts(row_parts_, rows.offsets(), row_parts());
  }

 private:
  int row_parts() const { return packing_.tile_rows / scatter::kPartRows; }

  // A tile's words: of the fixed ones lane l's word i is [places_[32 i + l]], of the others [32 i + l].
  Elements<std::uint32_t> fixed_of(std::int64_t tile) const {
    const auto words = static_cast<std::size_t>(fixed_ * kLanes);
    return Elements<std::uint32_t>(entries_.bytes().subspan(static_cast<std::size_t>(tile) * words * 4, words * 4));
  }
  Elements<std::uint32_t> more_of(std::int64_t tile) const {
    const std::size_t first = more_offsets_[tile];
    const std::size_t lines = more_offsets_[tile + 1] - first;
    return Elements<std::uint32_t>(more_.bytes().subspan(first * scatter::kLineBytes, lines * scatter::kLineBytes));
  }

  // In the byte form only the last lane reaches beyond the tile: to the bank behind its own, on the last line.
  bool last_lane_inside(std::int64_t tile) const {
    constexpr std::uint32_t kBeyond = (scatter::kLines - 1) * 4 + 2;
    bool inside = true;
    const auto look_at = [&](std::uint32_t positions) {
      for (int i = 0; i < 4; ++i) inside &= (positions >> (8 * i) & 0xFFU) < kBeyond;
    };
    const Elements<std::uint32_t> fixed = fixed_of(tile);
    for (std::int64_t word = 0; word < fixed_; word += 3) look_at(fixed[places_[word * kLanes + kLanes - 1]]);
    const Elements<std::uint32_t> more = more_of(tile);
    for (std::int64_t word = 0; word < more.size(); word += std::int64_t{3} * kLanes) look_at(more[word + kLanes - 1]);
    return inside;
  }

  // False where padding is not as packers write it: zeros where nothing else is, at the first places.
  bool store_words(std::int64_t tile, DenseTile& dense) const {
    std::vector<std::uint32_t> zeros;  // in the order of the tile's bytes
    for (const Elements<std::uint32_t>& words : {fixed_of(tile), more_of(tile)}) {
      for (std::int64_t i = 0; i < words.size(); ++i) {
        const std::uint32_t value = words[i] & 0xFFFFU;
        if (value == 0) {
          zeros.push_back(words[i] >> 17);
        } else {
          dense.store(indices_[words[i] >> 17], value, false);
        }
      }
    }
    std::ranges::sort(zeros);
    std::uint32_t next = 0;
    for (const std::uint32_t zero : zeros) {
      while (next < zero && dense.holds(indices_[next])) ++next;
      if (next++ != zero || dense.holds(indices_[zero])) return false;
    }
    return true;
  }

  // False where padding is not as packers write it: a lane without a nonzero stores 0 to the first place of its bank.
  bool store_bytes(std::int64_t tile, DenseTile& dense) const {
    const Elements<std::uint32_t> fixed = fixed_of(tile);
    const Elements<std::uint32_t> more = more_of(tile);
    ByteRounds rounds{indices_.data(), dense, {}, {}, 0};
    for (std::int64_t word = 0; word < fixed_; word += 3) {
      const std::uint16_t* places = places_.data() + word * kLanes;
      for (std::uint32_t lane = 0; lane < kLanes; ++lane)
        rounds.store<4>(lane, fixed[places[lane]], {fixed[places[kLanes + lane]], fixed[places[2 * kLanes + lane]]});
    }
    const std::int64_t whole = more.size() / (3 * kLanes) * (3 * kLanes);
    for (std::int64_t word = 0; word < whole; word += std::int64_t{3} * kLanes)
      for (std::uint32_t lane = 0; lane < kLanes; ++lane)
        rounds.store<4>(lane, more[word + lane], {more[word + kLanes + lane], more[word + 2 * kLanes + lane]});
    for (std::uint32_t lane = 0; whole < more.size() && lane < kLanes; ++lane) {
      rounds.wrong |= more[whole + lane] >> 16;
      rounds.store<2>(lane, more[whole + lane], {more[whole + kLanes + lane], 0});
    }
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      if (rounds.zeros[lane] && (rounds.nonzeros[lane] || dense.holds(indices_[2 * lane]))) return false;
    return rounds.wrong == 0;
  }

  // Entries of the byte form, four rounds at a time or the last two.
  struct ByteRounds {
    const std::uint16_t* indices;
    DenseTile& dense;
    std::array<bool, kLanes> zeros, nonzeros;  // that a lane stores
    std::uint32_t wrong;

    template <std::uint32_t kRounds>
    void store(std::uint32_t lane, std::uint32_t positions, const std::array<std::uint32_t, 2>& values) {
      for (std::uint32_t i = 0; i < kRounds; ++i) {
        const std::uint32_t position = positions >> (8 * i) & 0xFFU;
        const std::uint32_t value = values[i / 2] >> (16 * (i % 2)) & 0xFFFFU;
        if (value == 0) {
          wrong |= position;
          zeros[lane] = true;
        } else {
          dense.store(indices[position / 4 * (scatter::kLineBytes / 2) + position % 4 + lane * 2], value, true);
        }
      }
    }
  };

  const ScatterPacking packing_;
  const std::int64_t row_blocks_;
  const std::int64_t column_tiles_;
  const std::int64_t tiles_;
  const Facts facts_;
  const std::int64_t fixed_;  // words of each lane
  const std::vector<std::uint16_t> places_;
  const std::vector<std::uint16_t> indices_;
  Elements<std::uint32_t> entries_, more_, more_offsets_, row_parts_;
};

}  // namespace

PackedFormat scatter_format() {
  return format_of<ScatterReader, packing_named, pack_tiles, 2>(
      {.name = "scatter", .value_arrays = {"entries", "more_entries"}, .negative_zeros = true, .halves_only = true});
}

}  // namespace sparsmith
