#include "matrix/mask_statistics.h"

#include <algorithm>
#include <array>
#include <atomic>
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

// Groups of 4 << level bits that hold a set bit.
std::int64_t touched_groups(std::uint64_t word, std::size_t level) {
  constexpr std::array<std::uint64_t, kLevels> kFirstBits = {0x1111111111111111, 0x0101010101010101, 0x0001000100010001,
                                                             0x0000000100000001, 1};
  word |= word >> 1;
  word |= word >> 2;
  for (std::size_t i = 0; i < level; ++i) word |= word >> (4 << i);
  return count_bits(word & kFirstBits[level]);
}

// Groups of four bits with three or four of them set.
std::int64_t crowded_groups(std::uint64_t word) {
  std::uint64_t count = word - ((word >> 1) & 0x5555555555555555);             // of two bits
  count = (count & 0x3333333333333333) + ((count >> 2) & 0x3333333333333333);  // of four: 0 ... 4
  return count_bits((count >> 2 | (count & count >> 1)) & 0x1111111111111111);
}

// One thread's counts over the rows it was given. Rows come as bit masks. Column counts are kept bit-sliced: plane p
// holds bit p of 64 counters a word, so that a row is added to 64 columns by a few logical operations. Blocks of b
// rows are the OR of their rows' masks, folded from b to 2 b.
class RowCounter {
 public:
  explicit RowCounter(std::int64_t cols)
      : words_((cols + 63) / 64), mask_(words_), planes_(words_ * kPlanes), column_lengths_(words_ * 64) {
    for (auto& level : folded_) level.resize(words_);
  }

  std::uint64_t* mask() { return mask_.data(); }

  // Adds the row in mask() and returns its length.
  std::int64_t add_row() {
    std::int64_t length = 0;
    for (std::size_t i = 0; i < words_; ++i) {
      const std::uint64_t word = mask_[i];
      if (word == 0) continue;
      length += count_bits(word);
      illegal_groups_ += crowded_groups(word);
      folded_[0][i] |= word;
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
    for (std::size_t level = 0; level < kLevels; ++level) counts.touched_blocks[level] += touched_[level];
    counts.illegal_groups += illegal_groups_;
  }

 private:
  void close_level(std::size_t level) {
    std::int64_t touched = 0;
    for (std::size_t i = 0; i < words_; ++i) {
      const std::uint64_t word = folded_[level][i];
      if (word == 0) continue;
      touched += touched_groups(word, level);
      if (level + 1 < kLevels) folded_[level + 1][i] |= word;
      folded_[level][i] = 0;
    }
    touched_[level] += touched;
  }

  std::size_t words_;
  std::vector<std::uint64_t> mask_;
  std::vector<std::uint64_t> planes_;  // [kPlanes][words]
  std::int64_t plane_rows_ = 0;
  std::array<std::vector<std::uint64_t>, kLevels> folded_;
  std::array<std::int64_t, kLevels> touched_{};
  std::int64_t illegal_groups_ = 0;
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
