#include "formats/loads.h"
#include "formats/panel_tasks.h"

#include <algorithm>

namespace sparsmith::panel {
void sweep(const CsrMatrix& matrix, const PanelPacking& packing, int step_entries, std::int64_t rows,
           std::vector<Segment> pieces, PartTasks& part) {
  part.row_slots.assign(rows + 1, 0);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].slot = static_cast<std::uint16_t>(i);
    part.row_slots[pieces[i].row + 1] = static_cast<std::uint16_t>(i + 1);
  }
  for (std::int64_t row = 0; row < rows; ++row)
    part.row_slots[row + 1] = std::max(part.row_slots[row + 1], part.row_slots[row]);
  part.slot_count = part.row_slots.back();

  const std::size_t a_task = packing.segments();
  const auto a_step = static_cast<std::uint32_t>(packing.segment_lanes * step_entries);
  sort_by_length(pieces);
  Loads loads(std::ssize(part.shares));
  std::vector<std::vector<Segment>> owned(part.shares.size());
  for (const Segment& piece : pieces) owned[loads.give(piece.length)].push_back(piece);
  for (std::size_t warp = 0; warp < owned.size(); ++warp) {
    std::uint32_t steps = 0;
    for (std::int64_t end = packing.sweep_columns; !owned[warp].empty(); end += packing.sweep_columns) {
      std::vector<Segment> parts;  // of the pieces, in the columns before `end`
      for (Segment& piece : owned[warp]) {
        Segment head = piece;
        head.length = 0;
        while (head.length < piece.length && matrix.column_indices[part.entries[piece.first + head.length]] < end)
          ++head.length;
        piece.first += head.length;
        piece.length -= head.length;
        if (head.length == 0) continue;
        piece.slot |= static_cast<std::uint16_t>(kAddFlag);
        parts.push_back(head);
      }
      std::erase_if(owned[warp], [](const Segment& piece) { return piece.length == 0; });
      sort_by_length(parts);
      for (std::size_t first = 0; first < parts.size(); first += a_task) {
        Task& task = part.shares[warp].emplace_back();
        task.steps = (parts[first].length + a_step - 1) / a_step;
        task.segments.assign(parts.begin() + static_cast<std::ptrdiff_t>(first),
                             parts.begin() + static_cast<std::ptrdiff_t>(std::min(first + a_task, parts.size())));
        task.segments.resize(a_task);
        steps += task.steps;
      }
    }
    part.most_steps = std::max(part.most_steps, steps);
  }
}

}  // namespace sparsmith::panel
