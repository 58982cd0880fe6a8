// The bitmap family: the bitmap format, decoded by each warp into tensor-core operands (snippets/kernels/bitmap.cuh has
// the device side). For 16-bit weights with 10 to 60 % nonzeros and few tokens.
//
// Tensor cores form the products of zeros too, but a weight that is not stored contributes nothing, also where X holds
// Inf or NaN: kernels look for these in each strip of X and add what they contribute one by one.
//
// Three files: bitmap_family.cc says the parameters, the rules and the packing; bitmap_kernel.cc makes kernels and
// launch plans; bitmap_cost.cc predicts.
#pragma once

#include <string>

#include "formats/bitmap.h"
#include "formats/bitmap_layout.h"
#include "generator/family.h"

namespace sparsmith {

// Formulas of a plan: sizes that follow from the longest strip of the packed weight.
struct StripSizes {
  std::string slot_bytes;
  std::string stages;
  std::string extras_offset;
  std::string shared_bytes;  // of a block
};

// A bitmap config with its values named.
struct BitmapConfig {
  int tiles;        // of 16 rows, that a block owns
  int token_tiles;  // of 8 tokens
  int warps;        // that share out K
  int stages;       // slots of a warp's ring; fewer where they do not fit
  int run_bits;     // of a word, whose values lie together
  bool stored_offsets;
  bool bulk_copies;   // strips come by bulk copies, from sm_90 on
  int blocks_per_sm;  // that registers and shared memory leave room for
  int column_parts;   // of K
  bool cluster;       // adds up the sums of several parts; otherwise a second kernel does
  bool relayout;      // of X, to operands, by a launch in front

  explicit BitmapConfig(const Config& config);
  BitmapPacking packing() const { return {tiles, run_bits, stored_offsets}; }
  int rows() const { return 16 * tiles; }
  int tokens() const { return 8 * token_tiles; }
  int threads() const { return 32 * warps; }
  std::int64_t sums_bytes() const { return std::int64_t{warps} * tokens() * (rows() + 4) * 4; }
  std::int64_t extras_bytes() const {
    return std::int64_t{rows()} * tokens() * (cluster ? 8 : 4) + bitmap::kRowPartsBytes;
  }
  std::int64_t barriers_bytes() const { return bulk_copies ? std::int64_t{warps} * 4 * 8 : 0; }
  // Of a ring with strips of at most `strip_bytes`.
  std::int64_t slot_bytes(std::int64_t strip_bytes) const;
  // Slots of a ring that fit with strips of `strip_bytes`: 1 to `stages`. The legal rules see to it that 1 does.
  int stages_that_fit(std::int64_t strip_bytes, const DeviceProperties& device) const;
  // Shared memory of a block with rings of so many slots: the rings, whose place the sums take; the extras; the
  // barriers of bulk copies.
  std::int64_t extras_offset(std::int64_t strip_bytes, int ring_stages) const;
  std::int64_t shared_bytes(std::int64_t strip_bytes, int ring_stages) const {
    return extras_offset(strip_bytes, ring_stages) + extras_bytes() + barriers_bytes();
  }
  // The same as formulas, of the ring with as many slots as fit.
  StripSizes strip_sizes(const DeviceProperties& device) const;
  std::int64_t ring_room(const DeviceProperties& device) const;  // bytes that a block has for all rings
  // That a thread needs: an estimate, fitted to what ptxas says for sm_90.
  int registers(bool token_major) const;
};

class BitmapFamily : public Family {
 public:
  std::string name() const override { return "bitmap"; }
  double multiplied_share() const override { return 1; }
  std::vector<Parameter> parameters() const override;
  std::vector<Rule> rules() const override;
  std::string packing_of_rows(const Config& config, const Problem& problem) const override;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const override;
  std::vector<Ablation> ablations(const Config& config) const override;
  Result<Candidate> generate_without(Ablation part, const Config& config, const Problem& problem,
                                     const PackedWeight& packed) const override;
  double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const override;
};

}  // namespace sparsmith
