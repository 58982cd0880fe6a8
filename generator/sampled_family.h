// The sampled family: sddmm on the csr format, one thread group a row (snippets/kernels/sampled_rows.cuh). Rows of the
// packing stand in their order without padding, so that its nonzeros have the order of CSR, as the outputs do.
#pragma once

#include "formats/csr.h"
#include "generator/family.h"

namespace sparsmith {

// A sampled config with its values named.
struct SampledConfig {
  int index_bits;         // 16 or 32
  int token_lanes;        // lanes that share out the tokens of a nonzero
  int tokens_per_thread;  // at a time
  int column_lanes;       // nonzeros of a row side by side
  int nonzeros_per_thread;
  int threads_per_block;

  explicit SampledConfig(const Config& config);
  CsrPacking csr_packing() const;
  int group_threads() const { return token_lanes * column_lanes; }
};

class SampledFamily : public Family {
 public:
  std::string name() const override { return "sampled"; }
  bool serves(const OperatorSpec& spec) const override { return spec.kind == OperatorKind::kSddmm; }
  std::vector<Parameter> parameters() const override;
  std::vector<Rule> rules() const override;
  std::string packing_of_rows(const Config& config, const Problem& problem) const override;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const override;
  double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const override;
};

}  // namespace sparsmith
