// The two_four family: sparse tensor cores multiply the two_four format as stored (snippets/kernels/two_four.cuh has
// the device side). For 16-bit weights with at most two nonzeros in each aligned group of four columns, and few tokens.
//
// Groups with fewer nonzeros multiply X by 0. But a weight that is not stored contributes nothing, even if X holds Inf
// or NaN: a sum that is not finite is added up again.
#pragma once

#include "formats/two_four.h"
#include "generator/families/strip_parts.h"
#include "generator/family.h"

namespace sparsmith {

// A two_four config with named values.
struct TwoFourConfig : StripConfig {
  using StripConfig::StripConfig;
  int row_warps = at("row_warps");  // warps side by side, with warp_rows() each; the other warps share out K

  int warp_rows() const { return 16 * tiles; }
  int rows() const { return row_warps * warp_rows(); }  // rows of a block
  int threads() const { return 32 * row_warps * warps; }
  std::int64_t strip_bytes() const;  // bytes of a warp's strip
  // The number of a ring's slots that fit: 1 to `stages`. The legal rules ensure that 1 fits.
  int stages_that_fit(const DeviceProperties& device) const;
  // Shared memory of a block with rings of `ring_stages` slots: the rings, whose place the warps' sums take later; the
  // sums that other blocks of a cluster send; the barriers of bulk copies.
  std::int64_t sent_offset(int ring_stages) const;
  std::int64_t barriers_offset(int ring_stages) const;
  std::int64_t shared_bytes(int ring_stages) const;
  // Registers that a thread needs, by the output of ptxas for sm_90.
  int registers(bool token_major) const;
};

const Family& two_four_family();

}  // namespace sparsmith
