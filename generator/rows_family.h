// The rows family: the csr format, one thread group a row, and PaiSparse's reduction chain
// (snippets/kernels/rows.cuh has the device side).
//
// Three files: rows_family.cc says the parameters, the rules and the packing; rows_kernel.cc makes kernels and launch
// plans; rows_cost.cc predicts.
#pragma once

#include "formats/csr.h"
#include "generator/family.h"

namespace sparsmith {

// A rows config with its values named.
struct RowsConfig {
  enum class Input { kGlobal, kShared, kRelayout };

  int index_bits;  // 16 or 32
  int alignment;   // of segments, in nonzeros
  RowOrder row_order;
  std::int64_t split_length;  // 0: rows are not cut
  PartialSums partial_sums;
  int vector_width;   // nonzeros a load
  int shuffle_lanes;  // lanes of a row that combine by shuffle
  int shared_parts;   // parts of a row that combine through shared memory
  int token_lanes;    // lanes that share out a token tile
  int tokens_per_thread;
  int rows_per_group;  // rows that a thread group works on at once
  int unroll;          // vectors that a thread loads before it multiplies
  Input input;
  int threads_per_block;
  int blocks_per_sm;  // of a persistent grid; 0: as many blocks as there is work

  explicit RowsConfig(const Config& config);
  CsrPacking csr_packing() const;
  int group_threads() const { return shuffle_lanes * shared_parts * token_lanes; }
  int token_tile() const { return token_lanes * tokens_per_thread; }
  std::int64_t panel_bytes(std::int64_t cols, std::size_t element_bytes) const;  // shared memory for X
  std::int64_t sums_bytes() const;                                               // shared memory for the third link
};

// On "index_bits", of every family that reads a csr packing.
std::vector<Rule> csr_column_rules();

class RowsFamily : public Family {
 public:
  std::string name() const override { return "rows"; }
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
