// Deals rows to parts in the slots format, and computes what follows: sizes, descriptors and facts.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/packed_weight.h"
#include "formats/slots.h"
#include "formats/slots_layout.h"

namespace sparsmith {

// The parts and their rows, heavy parts first.
struct SlotsDeal {
  std::vector<std::vector<std::uint32_t>> rows;  // the rows of each part, longest first
  slots::PartSizes sizes = {0, 0, 0};
  std::int64_t rows_per_part = slots::kRowAlignment;
  std::int64_t fullest = 0;  // slots

  // row_slots: slots of every row.      parts: as in SlotsPacking.
  SlotsDeal(const std::vector<std::int64_t>& row_slots, int parts);

  std::int64_t stored_groups() const { return sizes.first_group(std::ssize(rows)); }
  // The descriptors of each part's rows, in the order of their slots.
  std::vector<slots::Row> describe(const std::vector<std::int64_t>& row_slots) const;
  // The facts of the packed weight.
  Facts facts(const SlotsPacking& packing, const std::vector<std::int64_t>& row_slots) const;
};

}  // namespace sparsmith
