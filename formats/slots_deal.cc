#include "formats/slots_deal.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/ceil_div.h"
#include "formats/loads.h"

namespace sparsmith {
namespace {

// The rows of each part: longest first, each to the part that has least (Graham's LPT rule).
std::vector<std::vector<std::uint32_t>> deal(const std::vector<std::int64_t>& row_slots, std::int64_t parts) {
  std::vector<std::uint32_t> order(row_slots.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return row_slots[a] > row_slots[b]; });
  Loads loads(parts);
  std::vector<std::vector<std::uint32_t>> dealt(parts);
  // Adding a row up costs a little, even if it is empty.
  for (const std::uint32_t row : order) dealt[loads.give(8 * row_slots[row] + 1)].push_back(row);
  return dealt;
}

// The sizes that store the fewest groups. `part_groups`: of each part, the fullest first. Without heavy parts where
// they would save less than a fiftieth.
slots::PartSizes cut_sizes(const std::vector<int>& part_groups) {
  const auto parts = std::ssize(part_groups);
  const slots::PartSizes equal = {0, part_groups.front(), part_groups.front()};
  slots::PartSizes best = equal;
  for (int heavy = 1; heavy < parts; ++heavy) {
    const slots::PartSizes sizes = {heavy, part_groups.front(), part_groups[heavy]};
    if (sizes.first_group(parts) < best.first_group(parts)) best = sizes;
  }
  return 50 * best.first_group(parts) <= 49 * equal.first_group(parts) ? best : equal;
}

}  // namespace

SlotsDeal::SlotsDeal(const std::vector<std::int64_t>& row_slots, int parts) {
  const std::int64_t total = std::accumulate(row_slots.begin(), row_slots.end(), std::int64_t{0});
  const std::int64_t most = parts * SlotsPacking::kMaxPartSlots;
  const std::int64_t wanted = parts * std::max<std::int64_t>(1, ceil_div(total, most));
  std::vector<std::vector<std::uint32_t>> dealt =
      deal(row_slots, std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, std::ssize(row_slots))));
  std::vector<std::int64_t> part_slots;
  for (const auto& of_part : dealt) {
    std::int64_t& sum = part_slots.emplace_back(0);
    for (const std::uint32_t row : of_part) sum += row_slots[row];
    rows_per_part = std::max(rows_per_part,
                             ceil_div(std::ssize(of_part), slots::kRowAlignment) * std::int64_t{slots::kRowAlignment});
  }
  fullest = *std::ranges::max_element(part_slots);

  std::vector<std::size_t> order(dealt.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t part) { return part_slots[part]; });
  std::vector<int> part_groups;
  for (const std::size_t part : order)
    part_groups.push_back(static_cast<int>(ceil_div(part_slots[part], slots::kLanes)));
  sizes = cut_sizes(part_groups);
  if (sizes.heavy_parts == 0) {
    rows = std::move(dealt);
  } else {
    for (const std::size_t part : order) rows.push_back(std::move(dealt[part]));
  }
}

std::vector<slots::Row> SlotsDeal::describe(const std::vector<std::int64_t>& row_slots) const {
  std::vector<slots::Row> descriptors(rows.size() * static_cast<std::size_t>(rows_per_part), {slots::kNoRow, 0});
  for (std::size_t part = 0; part < rows.size(); ++part) {
    std::int64_t next = 0;
    slots::Row* to = descriptors.data() + part * static_cast<std::size_t>(rows_per_part);
    for (const std::uint32_t row : rows[part]) {
      *to++ = {row, static_cast<unsigned>(next | row_slots[row] << 16)};
      next += row_slots[row];
    }
  }
  return descriptors;
}

Facts SlotsDeal::facts(const SlotsPacking& packing, const std::vector<std::int64_t>& row_slots) const {
  const std::int64_t total = std::accumulate(row_slots.begin(), row_slots.end(), std::int64_t{0});
  const std::int64_t slot_length = std::int64_t{packing.vector_width} * packing.tiles_per_slot;
  const std::int64_t parts = std::ssize(rows);
  return {{"columns", static_cast<std::int64_t>(packing.columns)},
          {"vector_width", packing.vector_width},
          {"tiles_per_slot", packing.tiles_per_slot},
          {"parts", parts},
          {"groups", sizes.groups},
          {"heavy_parts", sizes.heavy_parts},
          {"heavy_groups", sizes.heavy_groups},
          {"rows_per_part", rows_per_part},
          {"stored", stored_groups() * slots::kLanes * slot_length},
          {"longest_row", row_slots.empty() ? 0 : *std::ranges::max_element(row_slots)},
          {"balance", total == 0 ? 1000 : fullest * parts * 1000 / total}};
}

}  // namespace sparsmith
