// Packings of the slots format, drawn.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>

#include "formats/slots.h"
#include "formats/slots_layout.h"
#include "tests/support/drawn_matrix.h"

namespace sparsmith::test {

inline constexpr SlotColumns kAllSlotColumns[] = {SlotColumns::kUint16,  SlotColumns::kUint32, SlotColumns::kDelta8,
                                                  SlotColumns::kOffset8, SlotColumns::kDelta4, SlotColumns::kDelta6,
                                                  SlotColumns::kDelta3};

// For a matrix of so many columns.
inline SlotsPacking draw_slots_packing(Random& random, std::int64_t cols) {
  SlotColumns columns = kAllSlotColumns[random() % std::size(kAllSlotColumns)];
  if (columns == SlotColumns::kDelta3 && cols < slots::kLeastColumns3) columns = SlotColumns::kDelta4;
  const std::span<const int> widths = slot_vector_widths(columns);
  return {columns, widths[random() % widths.size()], 1 << random() % 3, static_cast<int>(1 + random() % 9)};
}

}  // namespace sparsmith::test
