// The bitmap family: each warp decodes the bitmap format into tensor-core operands (snippets/kernels/bitmap.cuh has the
// device side). For 16-bit weights with 10 to 60 % nonzeros and few tokens.
//
// Tensor cores form the products of zeros too. But a weight that is not stored contributes nothing, even if X holds Inf
// or NaN: kernels look for these in each strip of X and add their contributions one by one.
#pragma once

#include <string>

#include "formats/bitmap.h"
#include "formats/bitmap_layout.h"
#include "generator/families/strip_parts.h"
#include "generator/family.h"

namespace sparsmith {

// Formulas of a plan: sizes that depend on the longest strip of the packed weight.
struct StripSizes {
  std::string slot_bytes;
  std::string stages;
  std::string extras_offset;
  std::string shared_bytes;  // bytes of a block
};

// A bitmap config with named values.
struct BitmapConfig : StripConfig {
  using StripConfig::StripConfig;
  int run_bits = at("run_bits");  // bits of a word whose values lie together
  bool stored_offsets = at("stored_offsets");

  BitmapPacking packing() const { return {tiles, run_bits, stored_offsets}; }
  int rows() const { return 16 * tiles; }
  int threads() const { return 32 * warps; }
  std::int64_t sums_bytes() const { return std::int64_t{warps} * tokens() * (rows() + 4) * 4; }
  std::int64_t extras_bytes() const {
    return std::int64_t{rows()} * tokens() * (cluster ? 8 : 4) + bitmap::kRowPartsBytes;
  }
  std::int64_t barriers_bytes() const { return bulk_copies ? std::int64_t{warps} * 4 * 8 : 0; }
  // Bytes of a ring's slot, with strips of at most `strip_bytes`.
  std::int64_t slot_bytes(std::int64_t strip_bytes) const;
  // The number of a ring's slots that fit, with strips of `strip_bytes`: 1 to `stages`. The legal rules ensure that 1
  // fits.
  int stages_that_fit(std::int64_t strip_bytes, const DeviceProperties& device) const;
  // Shared memory of a block with rings of `ring_stages` slots: the rings, whose place the sums take later; the extras;
  // the barriers of bulk copies.
  std::int64_t extras_offset(std::int64_t strip_bytes, int ring_stages) const;
  std::int64_t shared_bytes(std::int64_t strip_bytes, int ring_stages) const {
    return extras_offset(strip_bytes, ring_stages) + extras_bytes() + barriers_bytes();
  }
  // The same as formulas, for a ring with as many slots as fit.
  StripSizes strip_sizes(const DeviceProperties& device) const;
  std::int64_t ring_room(const DeviceProperties& device) const;  // bytes that a block has for all rings
  // Registers that a thread needs: an estimate, fitted to the output of ptxas for sm_90.
  int registers(bool token_major) const;
};

const Family& bitmap_family();

}  // namespace sparsmith
