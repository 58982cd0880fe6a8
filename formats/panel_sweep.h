// Tasks in the order of columns, for warps that gather rows of X through L1: while all warps of a block work on the
// same columns, the rows of X that one of them has asked for are there for the others.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/panel_tasks.h"

namespace sparsmith::panel {

// Makes the shares and slots of a part. Pieces are dealt to warps once, evenly; a warp then goes through blocks of
// packing.sweep_columns columns and, in each, through what its pieces have there. A piece has one slot, to which all
// but its first task add (kAddFlag): no other warp does, so the order of additions is always the same.
//   pieces: in the order of rows, their entries ascending by column.       rows: of the part.
void sweep(const CsrMatrix& matrix, const PanelPacking& packing, int step_entries, std::int64_t rows,
           std::vector<Segment> pieces, PartTasks& part);

}  // namespace sparsmith::panel
