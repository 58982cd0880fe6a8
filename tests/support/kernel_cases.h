// Drawn cases of generated kernels: a config, an operator, and weights of many shapes to run it on.
//
// A kernel is drawn such that every value of every parameter of its family turns up; the weights hold what kernels get
// wrong: no nonzero at all, empty rows, one full row among empty ones, M = 1, K = 1, K on both sides of 65,536, sizes
// that are no multiple of anything. Everything follows from a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/coding.h"
#include "generator/ablation.h"
#include "runtime/executor.h"
#include "tests/support/drawn_matrix.h"
#include "tuner/verify/reference_problem.h"
#include "tuner/verify/verification.h"

namespace sparsmith::test {

// A number from [low, high].
std::int64_t draw_between(Random& random, std::int64_t low, std::int64_t high);

struct KernelCase {
  CsrMatrix matrix;  // what is multiplied by X: the weight, or its transpose where the operator says so
  Problem problem;
  Config config;
  ProblemOptions inputs;
  bool programmatic = false;  // launch programmatically: the emulator then sees what is touched before it is waited for
  const Coding* coding = nullptr;  // of the packing, which otherwise holds values of the weight's type
  bool small_grid = false;         // launch fewer blocks than there is work for, so that kernels go round
  bool written = false;            // earlier kernels may write the weight, where a kernel asks
  std::string text() const;
};

// The names of all families but the baseline, whose cases are in dense_cases.h.
std::vector<std::string> kernel_families();

// The shapes of weight in turn: `kind` counts up; each kind is drawn anew from `random`.
CsrMatrix draw_weight(Random& random, int kind);
constexpr int kWeightKinds = 12;

// Every weight is checked with Inf and NaN in the first column and the last of X: whether some row has nothing there,
// so that it shows when a kernel multiplies them by zeros.
bool meets_infinity(const KernelCase& each);
// Whether some row has a nonzero there, so that Inf and NaN must come out.
bool stores_infinity(const KernelCase& each);

inline constexpr int kActivations = 5;
OperatorSpec draw_operator(Random& random);
// Makes a gated operator a plain one where its rows are no two halves.
void fit_gate(OperatorSpec& spec);

// A legal config with `parameter` at `value`; nothing when 2,000 draws find none.
std::optional<Config> draw_config(Random& random, const Family& family, const Problem& problem,
                                  const std::string& parameter, std::int64_t value);

// One case per kernel and weight: for `kernels` kernels in turn over all values of all parameters, `weights` cases
// each, in which packing, weight, N and inputs change and the kernel's text does not. `first`: where in the turn the
// kernels begin.
std::vector<KernelCase> draw_cases(const Family& family, std::uint64_t seed, int kernels, int weights, int first = 0);

// Cases of families whose packings hold codes, in each coding; their weights are as decoded.
std::vector<KernelCase> draw_coded_cases(std::uint64_t seed, int kernels, int weights);

// The fp64 sums of a problem, by Eigen.
ReferenceSums eigen_sums(const ReferenceProblem& problem);

// Generates and checks a case on an executor: ok when the outputs are right, otherwise why not.
//   image_of: makes what the executor loads from a generated source.
using ImageOf = std::function<Result<KernelImage>(const KernelSource&)>;
Status run_case(const KernelCase& test_case, Executor& executor, const ImageOf& image_of);

// The candidate of a case, before anything runs; `without` a part, where one is given.
Result<Candidate> generate_case(const KernelCase& test_case, PackedWeight& packed,
                                std::optional<Ablation> without = std::nullopt);

}  // namespace sparsmith::test
