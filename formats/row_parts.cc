#include "formats/row_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

namespace sparsmith {

std::vector<std::uint32_t> deal_row_parts(const CsrMatrix& matrix, int parts_of_block) {
  const std::int64_t block_rows = std::int64_t{kPartRows} * parts_of_block;
  const std::int64_t row_blocks = (matrix.rows + block_rows - 1) / block_rows;
  const std::int64_t parts = row_blocks * parts_of_block;
  const auto weight = [&](std::int64_t part) {
    const std::int64_t begin = std::min(matrix.rows, part * kPartRows);
    return matrix.row_offsets[std::min(matrix.rows, begin + kPartRows)] - matrix.row_offsets[begin];
  };
  std::vector<std::uint32_t> order(static_cast<std::size_t>(parts));
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

PackedArray row_parts_array(const std::vector<std::uint32_t>& first_rows) {
  PackedArray row_parts{"row_parts", DataType::kUint32, std::vector<std::byte>(first_rows.size() * 4)};
  if (!first_rows.empty()) std::memcpy(row_parts.bytes.data(), first_rows.data(), row_parts.bytes.size());
  return row_parts;
}

Status check_row_parts(std::string_view format, const PackedArray* row_parts, std::int64_t count) {
  if (row_parts == nullptr || row_parts->type != DataType::kUint32 ||
      static_cast<std::int64_t>(row_parts->bytes.size()) != count * 4)
    return invalid_input(fmt::format("{}: array 'row_parts' is missing or has the wrong size", format));
  std::vector<bool> seen(static_cast<std::size_t>(count), false);
  for (const std::uint32_t row : row_parts->as<std::uint32_t>()) {
    const std::int64_t part = row / kPartRows;
    if (row % kPartRows != 0 || part >= count || seen[part])
      return invalid_input(fmt::format("{}: a part of a row block begins at row {}", format, row));
    seen[part] = true;
  }
  return {};
}

}  // namespace sparsmith
