#include "formats/row_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

namespace sparsmith {

std::vector<std::uint32_t> deal_row_parts(std::span<const std::int64_t> row_offsets, int parts_of_block) {
  const std::int64_t rows = std::ssize(row_offsets) - 1;
  const std::int64_t block_rows = std::int64_t{kPartRows} * parts_of_block;
  const std::int64_t row_blocks = (rows + block_rows - 1) / block_rows;
  const std::int64_t parts = row_blocks * parts_of_block;
  const auto weight = [&](std::int64_t part) {
    const std::int64_t begin = std::min(rows, part * kPartRows);
    return row_offsets[std::min(rows, begin + kPartRows)] - row_offsets[begin];
  };
  std::vector<std::uint32_t> order(parts);
  std::iota(order.begin(), order.end(), 0U);
  if (parts_of_block > 1) {
    std::vector<std::int64_t> weights(order.size());
    for (std::int64_t part = 0; part < parts; ++part) weights[part] = weight(part);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return weights[a] > weights[b]; });
  }
  using Load = std::tuple<std::int64_t, std::int64_t, int>;  // nonzeros, block, parts
  std::priority_queue<Load, std::vector<Load>, std::greater<>> lightest;
  for (std::int64_t block = 0; block < row_blocks; ++block) lightest.emplace(0, block, 0);
  std::vector<std::uint32_t> first_rows(order.size());
  for (const std::uint32_t part : order) {
    const auto [nonzeros, block, count] = lightest.top();
    lightest.pop();
    first_rows[block * parts_of_block + count] = part * kPartRows;
    if (count + 1 < parts_of_block) lightest.emplace(nonzeros + weight(part), block, count + 1);
  }
  return first_rows;
}

Status check_row_parts(const Elements<std::uint32_t>& row_parts) {
  const std::int64_t count = row_parts.size();
  std::vector<bool> seen(count, false);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t row = row_parts[i];
    const std::int64_t part = row / kPartRows;
    if (row % kPartRows != 0 || part >= count || seen[part])
      return invalid_input(fmt::format("row_parts: a part of a row block begins at row {}", row));
    seen[part] = true;
  }
  return {};
}

Status check_dealt_parts(const Elements<std::uint32_t>& row_parts, std::span<const std::int64_t> row_offsets,
                         int parts_of_block) {
  const std::vector<std::uint32_t> dealt = deal_row_parts(row_offsets, parts_of_block);
  for (std::int64_t i = 0; i < row_parts.size(); ++i)
    if (row_parts[i] != dealt[i])
      return invalid_input(
          fmt::format("row_parts: part {} begins at row {}, which packers put elsewhere", i, row_parts[i]));
  return {};
}

std::vector<std::int64_t> rows_of_block(const Elements<std::uint32_t>& row_parts, std::int64_t block,
                                        int parts_of_block) {
  std::vector<std::int64_t> rows;
  for (std::int64_t part = block * parts_of_block; part < (block + 1) * parts_of_block; ++part)
    for (std::int64_t row = 0; row < kPartRows; ++row) rows.push_back(row_parts[part] + row);
  return rows;
}

}  // namespace sparsmith
