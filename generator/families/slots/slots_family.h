// The slots family: the slots format, with a few tokens per pass. A lane works on equal slots of nonzeros, whatever the
// lengths of the rows (snippets/kernels/slots.cuh has the device side). For one token, for few tokens, or for few
// nonzeros.
#pragma once

#include "formats/slots.h"
#include "generator/family.h"

namespace sparsmith {

// A slots config with named values.
struct SlotsConfig : NamedConfig {
  using NamedConfig::NamedConfig;
  enum class Input { kGlobal, kShared };

  SlotColumns columns = at("columns");
  int vector_width = at("vector_width");         // nonzeros of a lane's tile
  int tiles_per_slot = at("tiles_per_slot", 1);  // tiles whose sums a lane adds before it leaves one in shared memory
  int depth = at("depth", 1);                    // tiles in flight per lane
  int row_lanes = at("row_lanes", 1);            // lanes that add up the slots of a row
  Input input = at("input", 1);
  int threads_per_block = at("threads_per_block", 1);
  int blocks_per_sm =
      at("blocks_per_sm", 1);  // that share a multiprocessor: the weight is dealt to all blocks that run at once
  int tokens_per_pass = at("tokens_per_pass", 1);

  SlotsPacking packing(const Problem& problem) const;
  std::int64_t vector_bytes(const OperatorSpec& spec) const;  // shared memory for X
  int tile_registers(DataType type) const;                    // of a lane's tile
  // Whether the whole block adds up the longest row of its part. That is so if a few lanes would take long for the row,
  // and if the row is more than half of the mean contents of a part, so that the other rows have been added up long
  // before.
  bool adds_long_rows(const PackedWeight& packed) const;
};

// Expected bytes of a nonzero in full tiles of `width`, with padding, from row lengths alone.
double slot_nonzero_bytes(SlotColumns columns, int width, DataType type, const SparsityStatistics& statistics);

// The cost model's estimate of a packing, from row lengths alone. It assumes that nonzeros are spread evenly.
struct SlotsEstimate {
  double slots = 0;         // of all rows
  double longest_row = 0;   // slots
  double bytes = 0;         // slots with padding, and row descriptors
  double part_slots = 0;    // of the fullest part
  double common_slots = 0;  // of a part that is not heavy
  double heavy_parts = 0;
  double parts = 1;

  SlotsEstimate(const SlotsConfig& config, const Problem& problem, const SparsityStatistics& statistics);
  std::int64_t sums_bytes() const;  // shared memory for the slots' sums of a token
  double stored_slots() const { return heavy_parts * part_slots + (parts - heavy_parts) * common_slots; }

 private:
  void cut_sizes(const SlotsConfig& config, const SparsityStatistics& statistics);
};

const Family& slots_family();
double predicted_slots_us(const Config& values, const Problem& problem, const SparsityStatistics& statistics);

}  // namespace sparsmith
