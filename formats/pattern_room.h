// Sizes of a packing with room for other patterns of as many nonzeros, so that plans and addresses stay while the
// pattern moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/packed_check.h"
#include "formats/packed_weight.h"

namespace sparsmith {

struct PatternRoom {
  std::vector<std::size_t> bytes;  // of each array of the packing
  Facts facts;                     // of the packing: counts are those that there is room for
  // Of the arrays that say where new values go (formats/places.h), where values are written: bytes of "place_runs", and
  // the facts of writers. There are neither offsets nor copies.
  std::size_t run_bytes = 0;
  Facts writer_facts;
};

// Arrays whose sizes depend on the pattern have a quarter more room than the pattern of `packed` takes, but no more
// than any pattern of aligned blocks of this side takes. `written`: whether new values are written into the packing.
//   Error: kUnsupported for a packing whose structure only its packer makes.
Result<PatternRoom> pattern_room(const PackedView& packed, std::int64_t nnz, std::int64_t block, bool written);

}  // namespace sparsmith
