// How the slots format deals rows to parts, and what follows from it: sizes, descriptors and facts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/slots.h"
#include "formats/slots_layout.h"

namespace sparsmith {

// Parts and what they hold, heavy ones first.
struct SlotsDeal {
  std::vector<std::vector<std::uint32_t>> rows;  // of each part, longest first
  slots::PartSizes sizes = {0, 0, 0};
  std::int64_t rows_per_part = slots::kRowAlignment;
  std::int64_t fullest = 0;  // slots

  // row_slots: slots of every row.      parts: SlotsPacking's.
  SlotsDeal(const std::vector<std::int64_t>& row_slots, int parts);

  std::int64_t stored_groups() const { return sizes.first_group(std::ssize(rows)); }
  // The descriptors of each part's rows, in the order of their slots.
  std::vector<slots::Row> describe(const std::vector<std::int64_t>& row_slots) const;
  // Of the packed weight.
  std::map<std::string, std::int64_t> facts(const SlotsPacking& packing,
                                            const std::vector<std::int64_t>& row_slots) const;
};

}  // namespace sparsmith
