// The gather family: the tasks of the panel format, with rows of X gathered from global memory through L1 and L2
// (snippets/kernels/gather.cuh has the device side).
//
// The family needs no staging and has no largest K. For weights so sparse that filling a panel costs more than it
// saves, for many columns, and for wide rows of X. X is read feature-major; a launch of its own turns token-major X.
#pragma once

#include "formats/panel.h"
#include "generator/family.h"

namespace sparsmith {

// A gather config with named values.
struct GatherConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  int token_lanes = at("token_lanes");        // of a team; each takes 16 bytes of a row of X
  int segment_lanes = at("segment_lanes");    // teams that work on one segment
  int segment_length = at("segment_length");  // nonzeros; longer rows are cut
  int sweep_columns =
      at("sweep_columns");          // tasks are ordered by blocks of so many columns, which stay in L1; 0: they are not
  int row_parts = at("row_parts");  // blocks that share out the rows
  int threads_per_block = at("threads_per_block");
  int depth = at("depth");  // steps that a warp loads ahead
  int ahead = at("ahead");  // 1: the rows of the next step are in flight while a step is multiplied

  PanelPacking packing(const Problem& problem) const;
  std::int64_t tile_tokens(DataType type) const;  // of a team
};

const Family& gather_family();

}  // namespace sparsmith
