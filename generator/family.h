// A kernel family: a way to compute an operator on a format. A family is a value; a function of its folder makes it
// once. It has parameters, rules that forbid configs, a packing, kernels with their launches, and a cost model. The
// tuner knows nothing else of families.
//
// Families are constant: any number of threads may use one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "formats/packed_weight.h"
#include "generator/candidate.h"
#include "generator/kernel_parts.h"
#include "generator/rule.h"
#include "matrix/csr_matrix.h"
#include "matrix/sparsity_statistics.h"

namespace sparsmith {

struct Family {
  std::string name;
  // The operators that the family computes, of any type and epilogue; rules forbid some of these.
  std::function<bool(const OperatorSpec&)> serves = [](const OperatorSpec& spec) { return spec.multiplies_weight(); };
  // Whether other families are compared with this one: no N is served slower than by the baseline.
  bool is_baseline = false;
  // Whether the device's library multiplies: by the weight with all its zeros, so that 0 times Inf is NaN.
  bool by_library = false;
  // The share of a weight's elements that tensor cores multiply, zeros included; 0: only nonzeros are multiplied.
  double multiplied_share = 0;
  std::vector<Parameter> parameters;
  std::vector<Rule> rules = {};

  // The packing that a config reads, for a weight whose rows are the rows of Y.
  std::function<std::string(const Config&, const Problem&)> packing_of_rows;
  // Whether an operator that multiplies by the transposed weight reads a packing of the transposed weight.
  bool packs_transposed = true;
  // The kernels of a config and their launches. The name of the family's own kernel begins with the family's name. The
  // texts do not depend on the weight's pattern; the plan may.
  std::function<Result<PlannedKernels>(const Config&, const Problem&, const PackedWeight&)> kernels;
  // The cost model: microseconds for one run with the weight cold in cache.
  std::function<double(const Config&, const Problem&, const SparsityStatistics&)> predict;

  // Ok if `config` is possible on this problem; otherwise kInvalidArgument with the reason, such as the first legal
  // rule that the config breaks.
  Status check(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const;

  // The packing that `config` reads. Configs that differ only in other parameters share a packing.
  std::string packing(const Config& config, const Problem& problem) const;
  Result<PackedWeight> pack(const Config& config, const Problem& problem, const CsrMatrix& matrix) const;

  // kernels() for a weight in the packing of `config`, the family's own kernel first. REQUIRES: check() is ok.
  //   Error: kInternal for another packing, because callers pack by the config.
  Result<PlannedKernels> plan(const Config& config, const Problem& problem, const PackedWeight& packed) const;
  Result<Candidate> generate(const Config& config, const Problem& problem, const PackedWeight& packed) const;
};

// Family::packing_of_rows for a family whose config struct has a member packing().
template <class ConfigOf>
std::string packing_name(const Config& config, const Problem& problem) {
  if constexpr (requires { ConfigOf(config).packing(problem); }) {
    return ConfigOf(config).packing(problem).name();
  } else {
    return ConfigOf(config).packing().name();
  }
}

// families(): all families of this build. family(): nullptr if there is no family of this name.
std::span<const Family* const> families();
const Family* family(std::string_view name);
// Whether the config's family is a baseline.
bool is_baseline(const Config& config);

}  // namespace sparsmith
