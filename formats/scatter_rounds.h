// How a tile's entries are dealt to lanes and rounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/scatter.h"

namespace sparsmith::scatter {

// A nonzero on its way into its tile: the value's 16 bits, and above them its byte offset in the tile.
using Entry = std::uint32_t;
inline std::uint32_t offset_of(Entry entry) { return entry >> 16; }
inline std::uint32_t bank_of(Entry entry) { return offset_of(entry) / 4 % 32; }
inline std::uint32_t line_of(Entry entry) { return offset_of(entry) / 128; }

// Words of a lane that every tile has at a fixed place, and where they stand in the tile: lane l's word i is [32 i +
// l].
std::int64_t fixed_words(const ScatterPacking& packing);
std::vector<std::uint16_t> fixed_places(const ScatterPacking& packing);

// Of tiles that have so many rounds each.
struct RoundCounts {
  std::int64_t all = 0;
  std::int64_t p5 = 0;
  std::int64_t p95 = 0;
  std::int64_t max = 0;
};
RoundCounts count_rounds(std::vector<std::uint32_t> rounds);

// Deals one tile after another; keeps its memory between them.
class RoundDealer {
 public:
  RoundDealer(ScatterEntry form, int min_rounds) : form_(form), min_rounds_(min_rounds) {}

  // The words of a tile, lane l's word i at [32 i + l], until the next call. `entries`: ordered by line, distinct
  // positions.
  std::span<const std::uint32_t> deal(std::span<const Entry> entries);

  // Of the tile last dealt.
  std::int64_t rounds() const { return rounds_; }

 private:
  void count_banks(std::span<const Entry> entries);
  bool moves_fit(std::int64_t rounds);
  void choose_rounds(std::span<const Entry> entries);
  void sort_banks(std::span<const Entry> entries);
  void deal_lanes();
  void deal_bank(int bank);
  void deal_words(std::span<const Entry> entries);
  void pack_bytes();
  Entry& at(std::int64_t round, int lane) { return dealt_[static_cast<std::size_t>(round * 32 + lane)]; }

  ScatterEntry form_;
  int min_rounds_;
  std::int64_t rounds_ = 0;
  std::int64_t counts_[32] = {};      // entries of each bank
  std::int64_t unmovable_ = 0;        // of bank 0: those on line 0
  std::int64_t moved_[33] = {};       // entries of each bank that the lane before it stores; [32] is [0]
  std::vector<Entry> banks_[32];      // entries by bank, by line
  std::vector<Entry> dealt_;          // [round][lane]
  std::vector<std::uint32_t> words_;  // of the byte form
  std::vector<Entry> padded_;         // entries with their padding, for the word form
  std::vector<std::uint8_t> taken_;   // which entries of a bank have been dealt
};

}  // namespace sparsmith::scatter
