// Deals the entries of a tile to lanes and rounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_weight.h"
#include "formats/scatter.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith::scatter {

// A nonzero before it is dealt: the low 16 bits are its value, the high 16 bits its byte offset in the tile.
using Entry = std::uint32_t;
inline std::uint32_t offset_of(Entry entry) { return entry >> 16; }
inline std::uint32_t bank_of(Entry entry) { return offset_of(entry) / 4 % 32; }
inline std::uint32_t line_of(Entry entry) { return offset_of(entry) / 128; }

// The number of a lane's words that every tile has at a fixed place, and their places in the tile: lane l's word i is
// [32 i + l].
std::int64_t fixed_words(const ScatterPacking& packing);
std::vector<std::uint16_t> fixed_places(const ScatterPacking& packing);

// Row * columns + column of each element of a tile, in the order of shared memory.
std::vector<std::uint16_t> element_indices(const ScatterPacking& packing);

// The facts of a packed weight whose tiles have these rounds.
Facts facts_of(std::vector<std::int64_t> rounds, std::int64_t row_blocks, std::int64_t column_tiles, std::int64_t nnz);

// Deals one tile after another, and keeps its memory between tiles.
class RoundDealer {
 public:
  RoundDealer(ScatterEntry form, int min_rounds) : form_(form), min_rounds_(min_rounds) {}

  // Returns the words of a tile, with lane l's word i at [32 i + l]. They are valid until the next call. `entries`:
  // ordered by line, with distinct positions.
  std::span<const std::uint32_t> deal(std::span<const Entry> entries);

  // The rounds of the last tile.
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
  Entry& at(std::int64_t round, int lane) { return dealt_[round * 32 + lane]; }

  ScatterEntry form_;
  int min_rounds_;
  std::int64_t rounds_ = 0;
  std::int64_t counts_[32] = {};      // entries of each bank
  std::int64_t unmovable_ = 0;        // entries of bank 0 on line 0
  std::int64_t moved_[33] = {};       // entries of each bank that the previous lane stores; [32] is [0]
  std::vector<Entry> banks_[32];      // entries by bank, by line
  std::vector<Entry> dealt_;          // [round][lane]
  std::vector<std::uint32_t> words_;  // words of the byte form
  std::vector<Entry> padded_;         // entries with their padding, for the word form
  std::vector<std::uint8_t> taken_;   // which entries of a bank have been dealt
};

}  // namespace sparsmith::scatter

namespace sparsmith {

// Adds facts and arrays. Errors: kInvalidArgument for a matrix with more than 2^32 groups of 32 words.
Status pack_tiles(const CsrMatrix& matrix, const ScatterPacking& packing, DataType type, PackedWeight& packed);

}  // namespace sparsmith
