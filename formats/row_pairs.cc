#include "formats/row_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <tuple>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/bsr_layout.h"

namespace sparsmith {

using bsr::kHalfRows;

std::vector<std::uint32_t> block_columns_of(const SparsityPattern& pattern, std::span<const std::int64_t> rows,
                                            std::int64_t width) {
  std::vector<std::uint32_t> columns;
  for (const std::int64_t row : rows) {
    if (row >= pattern.rows) continue;
    for (std::int64_t i = pattern.row_offsets[row]; i < pattern.row_offsets[row + 1]; ++i) {
      const std::uint32_t column = pattern.column_indices[i] / static_cast<std::uint32_t>(width);
      if (columns.empty() || columns.back() != column) columns.push_back(column);
    }
  }
  std::ranges::sort(columns);
  columns.erase(std::ranges::unique(columns).begin(), columns.end());
  return columns;
}

std::vector<std::uint32_t> order_in_pairs(const BlockColumns& columns, std::int64_t column_count) {
  constexpr std::size_t kPartners = 512;
  const std::int64_t words = ceil_div(column_count, std::int64_t{64});
  std::vector<std::uint64_t> bits(columns.size() * words);
  for (std::size_t row = 0; row < columns.size(); ++row)
    for (const std::uint32_t column : columns[row]) bits[row * words + column / 64] |= std::uint64_t{1} << column % 64;
  const auto common = [&](std::uint32_t a, std::uint32_t b) {
    int count = 0;
    for (std::int64_t i = 0; i < words; ++i) count += std::popcount(bits[a * words + i] & bits[b * words + i]);
    return count;
  };
  std::vector<std::uint32_t> rows(columns.size());
  std::iota(rows.begin(), rows.end(), 0U);
  const auto length = [&](std::uint32_t row) { return std::ssize(columns[row]); };
  std::ranges::stable_sort(rows, std::greater(), length);

  // Of pairs with as many columns in common, neighbours.
  struct Pair {
    int common;
    std::uint32_t first;
    std::uint32_t second;
  };
  std::vector<Pair> taken;
  std::vector<bool> has_partner(columns.size());
  for (std::size_t begin = 0; begin < rows.size(); begin += kPartners) {
    const std::span<std::uint32_t> some(rows.data() + begin, std::min(kPartners, rows.size() - begin));
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < some.size(); ++i)
      for (std::size_t j = i + 1; j < some.size(); ++j) pairs.push_back({common(some[i], some[j]), some[i], some[j]});
    std::ranges::sort(pairs, {}, [](const Pair& pair) {
      const auto [least, most] = std::minmax(pair.first, pair.second);
      return std::tuple(-pair.common, most - least, least);
    });
    for (const Pair& pair : pairs) {
      if (has_partner[pair.first] || has_partner[pair.second]) continue;
      has_partner[pair.first] = has_partner[pair.second] = true;
      taken.push_back(pair);
    }
  }
  std::ranges::stable_sort(taken, std::greater(), [&](const Pair& pair) {
    return std::tuple(length(pair.first) + length(pair.second) - pair.common, pair.common);
  });
  std::vector<std::uint32_t> order;
  for (const Pair& pair : taken) order.insert(order.end(), {pair.first, pair.second});
  std::ranges::copy_if(rows, std::back_inserter(order), [&](std::uint32_t row) { return !has_partner[row]; });
  return order;
}

std::vector<std::uint32_t> halves_in_pairs(const SparsityPattern& pattern, std::int64_t width) {
  BlockColumns columns(ceil_div(pattern.rows, std::int64_t{2 * kHalfRows}) * 2);
  const auto find = [&](std::int64_t half) {
    columns[half] = block_columns_of(pattern, weight_rows({}, half * kHalfRows, kHalfRows), width);
  };
  parallel_each(std::ssize(columns), find, 4);
  return order_in_pairs(columns, ceil_div(pattern.cols, width));
}

std::vector<std::int64_t> weight_rows(std::span<const std::uint32_t> halves, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> rows(count);
  std::iota(rows.begin(), rows.end(), first);
  if (halves.empty()) return rows;
  for (std::int64_t& row : rows) row = std::int64_t{halves[row / kHalfRows]} * kHalfRows + row % kHalfRows;
  return rows;
}

Result<std::vector<std::uint32_t>> read_order(const Elements<std::uint32_t>& numbers, const char* name) {
  std::vector<std::uint32_t> order;
  std::vector<bool> seen(numbers.size());
  for (std::int64_t i = 0; i < numbers.size(); ++i) {
    const std::uint32_t number = numbers[i];
    if (number >= seen.size() || seen[number])
      return invalid_input(
          fmt::format("{}: place {} has {}, which is not there or has a place already", name, i, number));
    seen[number] = true;
    order.push_back(number);
  }
  return order;
}

}  // namespace sparsmith
