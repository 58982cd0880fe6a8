#include "matrix/mask_statistics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "base/count_bits.h"
#include "base/parallel_for.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kBandRows = 64;       // of the largest block
constexpr int kPlanes = 8;                   // bits of a column's counter
constexpr std::int64_t kMaxPlaneRows = 255;  // what they can count
constexpr std::size_t kLevels = SparsityStatistics::kBlockSizes.size();

// For each group of four bits of a word, in its place, how many of them are set.
std::uint64_t counts_of_four(std::uint64_t word) {
  const std::uint64_t of_two = word - ((word >> 1) & 0x5555555555555555);
  return (of_two & 0x3333333333333333) + ((of_two >> 2) & 0x3333333333333333);
}
// Sums of neighbouring counts of `bits` bits each, in places of twice as many.
std::uint64_t sums_of_pairs(std::uint64_t counts, int bits) {
  const std::uint64_t lower = ~std::uint64_t{0} / ((std::uint64_t{1} << bits) + 1);
  return (counts & lower) + ((counts >> bits) & lower);
}

// One thread's counts over the rows it was given. Rows come as bit masks. Column counts are kept bit-sliced: plane p
// holds bit p of 64 counters a word, so that a row is added to 64 columns by a few logical operations. Counts of blocks
// lie several in a word too; those of b rows are folded to 2 b.
class RowCounter {
 public:
  explicit RowCounter(std::int64_t cols)
      : words_((cols + 63) / 64),
        mask_(words_),
        planes_(words_ * kPlanes),
        counts_(words_),
        column_lengths_(words_ * 64) {}

  std::uint64_t* mask() { return mask_.data(); }

  // Adds the row in mask() and returns its length.
  std::int64_t add_row() {
    std::int64_t length = 0;
    for (std::size_t i = 0; i < words_; ++i) {
      const std::uint64_t word = mask_[i];
      if (word == 0) continue;
      length += count_bits(word);
      add_groups(word, counts_[i]);
      std::uint64_t carry = word;
      for (int plane = 0; plane < kPlanes && carry != 0; ++plane) {
        std::uint64_t& bits = planes_[plane * words_ + i];
        const std::uint64_t sum = bits ^ carry;
        carry &= bits;
        bits = sum;
      }
    }
    if (++plane_rows_ == kMaxPlaneRows) flush_planes();
    return length;
  }

  // Closes the blocks that end after `rows_in_band` rows of a band; all of them when these are the `last` rows.
  void close_blocks(std::int64_t rows_in_band, bool last) {
    for (std::size_t level = 0; level < kLevels; ++level) {
      if (!last && rows_in_band % SparsityStatistics::kBlockSizes[level] != 0) return;
      close_level(level);
    }
  }

  void flush_planes() {
    for (std::size_t i = 0; i < words_; ++i) {
      for (int bit = 0; bit < 64; ++bit) {
        std::int64_t count = 0;
        for (int plane = 0; plane < kPlanes; ++plane)
          count += static_cast<std::int64_t>(planes_[plane * words_ + i] >> bit & 1) << plane;
        column_lengths_[i * 64 + bit] += count;
      }
    }
    std::fill(planes_.begin(), planes_.end(), 0);
    plane_rows_ = 0;
  }

  void add_to(PatternCounts& counts) const {
    for (std::size_t i = 0; i < counts.column_lengths.size(); ++i) counts.column_lengths[i] += column_lengths_[i];
    counts.blocks.add(blocks_);
    for (std::size_t i = 0; i < counts.groups.size(); ++i)
      for (std::size_t size = 0; size < counts.groups[i].size(); ++size) counts.groups[i][size] += groups_[i][size];
  }

 private:
  // What the open blocks of 64 columns hold: 16 counts of 4 columns, the even ones in one word; 8, 4, 2, 1 of more.
  struct BlockCounts {
    std::array<std::uint64_t, 2> fours{};
    std::array<std::uint64_t, kLevels> wider{};  // without the first
  };

  void add_groups(std::uint64_t word, BlockCounts& blocks) {
    constexpr std::uint64_t kOnes = 0x1111111111111111;
    const std::uint64_t fours = counts_of_four(word);
    groups_[0][1] += count_bits(fours & ~(fours >> 1) & kOnes);
    groups_[0][2] += count_bits(~fours & fours >> 1 & kOnes);
    groups_[0][3] += count_bits(fours & fours >> 1 & kOnes);
    groups_[0][4] += count_bits(fours >> 2 & kOnes);
    const std::uint64_t eights = sums_of_pairs(fours, 4);
    const std::uint64_t sixteens = sums_of_pairs(eights, 8);
    for (int bit = 0; bit < 64; bit += 8) ++groups_[1][eights >> bit & 0xFF];
    for (int bit = 0; bit < 64; bit += 16) ++groups_[2][sixteens >> bit & 0xFF];
    blocks.fours[0] += fours & 0x0F0F0F0F0F0F0F0F;
    blocks.fours[1] += fours >> 4 & 0x0F0F0F0F0F0F0F0F;
  }

  void close_level(std::size_t level) {
    for (BlockCounts& blocks : counts_) {
      if (level == 0) {
        close_blocks_of(blocks.fours[0], 8, level);
        close_blocks_of(blocks.fours[1], 8, level);
        blocks.wider[1] += blocks.fours[0] + blocks.fours[1];
        blocks.fours = {};
        continue;
      }
      const std::uint64_t counts = std::exchange(blocks.wider[level], 0);
      const int bits = 4 << level;
      close_blocks_of(counts, bits, level);
      if (level + 1 < kLevels) blocks.wider[level + 1] += sums_of_pairs(counts, bits);
    }
  }

  // Counts of blocks, of `bits` bits each.
  void close_blocks_of(std::uint64_t counts, int bits, std::size_t level) {
    while (counts != 0) {
      const int at = std::countr_zero(counts) / bits * bits;
      const std::uint64_t own = bits == 64 ? counts : counts >> at & ((std::uint64_t{1} << bits) - 1);
      blocks_.add(level, static_cast<std::int64_t>(own));
      counts -= own << at;
    }
  }

  std::size_t words_;
  std::vector<std::uint64_t> mask_;
  std::vector<std::uint64_t> planes_;  // [kPlanes][words]
  std::int64_t plane_rows_ = 0;
  std::vector<BlockCounts> counts_;  // [words]
  BlockTotals blocks_;
  decltype(PatternCounts::groups) groups_{};
  std::vector<std::int64_t> column_lengths_;  // [words * 64]
};

}  // namespace

std::int64_t count_masks(const MaskedRows& rows, int threads, PatternCounts& counts) {
  const std::int64_t chunk_rows =
      kBandRows * std::max<std::int64_t>(1, rows.chunk_bytes / std::max<std::int64_t>(1, rows.row_bytes * kBandRows));
  const std::int64_t chunks = ceil_div(counts.rows, chunk_rows);
  std::vector<RowCounter> counters(std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(chunks, 1)),
                                   RowCounter(counts.cols));
  std::atomic<std::int64_t> next_chunk = 0;
  std::atomic<std::int64_t> first_bad_row = counts.rows;
  // One thread: takes the next chunk of whole bands, until there is none.
  const auto work = [&](std::int64_t thread) {
    RowCounter& counter = counters[thread];
    for (std::int64_t chunk = next_chunk++; chunk < chunks; chunk = next_chunk++) {
      const std::int64_t begin = chunk * chunk_rows;
      const std::int64_t end = std::min(begin + chunk_rows, counts.rows);
      if (first_bad_row < begin) break;
      for (std::int64_t row = begin; row < end; ++row) {
        if (!rows.read(row, counter.mask())) {
          for (std::int64_t seen = first_bad_row; row < seen && !first_bad_row.compare_exchange_weak(seen, row);) {
          }
        }
        counts.row_lengths[row] = counter.add_row();
        const std::int64_t rows_in_band = (row - begin) % kBandRows + 1;
        if (rows_in_band % 4 == 0 || row + 1 == end) counter.close_blocks(rows_in_band, row + 1 == end);
      }
      if (rows.release) rows.release(begin, end);
    }
    counter.flush_planes();
  };
  const std::int64_t workers = std::ssize(counters);
  parallel_each(workers, work, 1, workers);
  for (const RowCounter& counter : counters) counter.add_to(counts);
  return first_bad_row;
}

}  // namespace sparsmith
