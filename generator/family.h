// A kernel family: a way to compute an operator on a format. Each family says, in one file, its
// parameters, what rules a config out, its format, its kernels and its launch. The tuner knows families only
// through this interface.
//
// Families hold no state: one object may be used from any number of threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/packed_weight.h"
#include "generator/ablation.h"
#include "generator/candidate.h"
#include "generator/rule.h"
#include "matrix/csr_matrix.h"
#include "matrix/sparsity_statistics.h"

namespace sparsmith {

class Family {
 public:
  virtual ~Family() = default;

  virtual std::string name() const = 0;
  // Whether it computes that operator, whatever its type and epilogue: rules say what these rule out. Most multiply
  // by the weight.
  virtual bool serves(const OperatorSpec& spec) const { return spec.multiplies_weight(); }
  // Whether it is what the others are compared with: no N is served slower than by this one.
  virtual bool is_baseline() const { return false; }
  // The share of a weight's elements that tensor cores multiply, zeros among them; 0: the nonzeros alone are
  // multiplied.
  virtual double multiplied_share() const { return 0; }
  virtual std::vector<Parameter> parameters() const = 0;

  // What rules a config out, and why.
  virtual std::vector<Rule> rules() const = 0;

  // Ok, or what is wrong with `config` on this problem, such as the first legal rule that it breaks:
  // kInvalidArgument with the reason.
  Status check(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const;

  // The packing that `config` reads, of the transposed weight where the operator multiplies that. Configs that differ
  // only in other parameters share it.
  virtual std::string packing(const Config& config, const Problem& problem) const;
  Result<PackedWeight> pack(const Config& config, const Problem& problem, const CsrMatrix& matrix) const;

  // Kernels and plan. REQUIRES: check() is ok, and `packed` came from pack() of this config. The kernels'
  // text does not depend on the weight's pattern; the plan may.
  virtual Result<Candidate> generate(const Config& config, const Problem& problem,
                                     const PackedWeight& packed) const = 0;

  // The parts that can be taken out of the kernels of `config`; none in a family that does not know of it.
  virtual std::vector<Ablation> ablations(const Config& config) const;
  // As generate(), with kernels from which `part` is taken out and that have names of their own.
  //   Error: kUnsupported where ablations() does not have it.
  virtual Result<Candidate> generate_without(Ablation part, const Config& config, const Problem& problem,
                                             const PackedWeight& packed) const;

  // The cost model: microseconds for one run with the weight cold in cache.
  virtual double predict(const Config& config, const Problem& problem, const SparsityStatistics& statistics) const = 0;

 private:
  // The packing of a weight whose rows are those of Y.
  virtual std::string packing_of_rows(const Config& config, const Problem& problem) const = 0;
};

// Every family of this build; nullptr when there is none of that name.
std::span<const std::unique_ptr<Family>> families();
const Family* family(std::string_view name);
// Whether its family is a baseline.
bool is_baseline(const Config& config);

}  // namespace sparsmith
