// The slots family: the slots format and a few tokens a pass; a lane works on equal slots of nonzeros, whatever the
// lengths of the rows (snippets/kernels/slots.cuh has the device side). For one token, or few, or few nonzeros.
//
// Three files: slots_family.cc says the parameters, the rules and the packing; slots_kernel.cc makes kernels and launch
// plans; slots_cost.cc predicts.
#pragma once

#include "formats/slots.h"
#include "generator/family.h"

namespace sparsmith {

// A slots config with its values named.
struct SlotsConfig {
  enum class Input { kGlobal, kShared };

  SlotColumns columns;
  int vector_width;    // nonzeros of a lane's tile
  int tiles_per_slot;  // tiles whose sums a lane adds before it leaves one in shared memory
  int depth;           // tiles in flight a lane
  int row_lanes;       // lanes that add up the slots of a row
  Input input;
  int threads_per_block;
  int blocks_per_sm;  // that share a multiprocessor: the weight is dealt to as many blocks as run at once
  int tokens_per_pass;

  explicit SlotsConfig(const Config& config);
  SlotsPacking packing(const Problem& problem) const;
  std::int64_t vector_bytes(const OperatorSpec& spec) const;  // shared memory for X
  int tile_registers(DataType type) const;                    // of a lane's tile
  // Whether the whole block adds up the longest row of its part: where a few lanes would take long for it, and it is
  // more than half of what a part stores in the mean, so that the others' rows have long been added up.
  bool adds_long_rows(const PackedWeight& packed) const;
};

// Bytes of a nonzero in full tiles of `width`, padding included, as expected from row lengths alone.
double slot_nonzero_bytes(SlotColumns columns, int width, DataType type, const SparsityStatistics& statistics);

// What the cost model expects of a packing, from row lengths alone: nonzeros are taken as spread evenly.
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

class SlotsFamily : public Family {
 public:
  std::string name() const override { return "slots"; }
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
