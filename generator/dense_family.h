// The dense family: the device's library multiplies by the weight with all its zeros and, where its epilogue is not
// ours, one kernel makes Y of W X (snippets/kernels/dense_epilogue.cuh). It is what all others are compared with.
#pragma once

#include "generator/family.h"

namespace sparsmith {

class DenseFamily : public Family {
 public:
  std::string name() const override { return "dense"; }
  bool is_baseline() const override { return true; }
  double multiplied_share() const override { return 1; }
  std::vector<Parameter> parameters() const override;
  std::vector<Rule> rules() const override { return {}; }
  // The weight itself, whichever the operator: the library turns it.
  std::string packing(const Config& config, const Problem& problem) const override;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const override;
  double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const override;

 private:
  std::string packing_of_rows(const Config& config, const Problem& problem) const override;
};

// The candidate where the library computes less than the operator: its product, which goes to the start of the
// workspace, and a kernel that applies alpha and the whole epilogue.
Result<Candidate> dense_with_epilogue(const OperatorSpec& spec);

}  // namespace sparsmith
