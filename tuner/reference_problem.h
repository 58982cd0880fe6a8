// One weight, one operator and one N with drawn inputs and the exact outputs: what candidates are checked against.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "matrix/csr_matrix.h"
#include "runtime/executor.h"
#include "runtime/operator_spec.h"
#include "tuner/element_buffer.h"
#include "tuner/error_bound.h"

namespace sparsmith {

// What inputs are drawn to be like. Signs are drawn in all of them.
enum class InputKind : std::uint8_t {
  kVaried,  // magnitudes from 2^-4 to 2^2
  kLarge,   // so large that 16-bit outputs overflow, but no fp32 sum does
  kTiny,    // so small that 16-bit outputs are denormal, but no fp32 product underflows
  kZeros,   // X is zero
};

struct ProblemOptions {
  std::int64_t tokens = 1;
  std::uint64_t seed = 1;
  InputKind kind = InputKind::kVaried;
  std::int64_t padding = 0;  // elements added to each leading dimension
  float alpha = 0.75F;
  float beta = 0.5F;  // used where the epilogue has beta
};

// Per output, in the order of Y without padding: S and A of error_bound.h.
struct ReferenceSums {
  std::vector<double> sums;
  std::vector<double> magnitudes;
};

// The nonzeros rounded to `type`, as every candidate sees them.
using RoundedValues = std::shared_ptr<const std::vector<float>>;
RoundedValues rounded_values(const CsrMatrix& matrix, DataType type);

// How Inf and NaN in X change an output.
enum class PoisonEffect : std::uint8_t {
  kNone,    // the row stores no weight where X is poisoned
  kFinite,  // any finite number: relu makes 0 of -Inf
  kInfinity,
  kNegativeInfinity,
  kNan,
  kUnknown,  // not checked: the type of the operator rounds a stored weight to 0
};

// X with Inf, -Inf and NaN in a few columns, the first and the last among them. One token in kPeriod stays as drawn.
struct PoisonedInput {
  static constexpr std::int64_t kPeriod = 4;

  ElementBuffer x;
  std::vector<PoisonEffect> effects;  // [M][kPeriod]: of output (row, token) at row * kPeriod + token % kPeriod

  // The expected output (row, token) where the drawn X makes `drawn`.
  BoundedOutput expected(DataType type, const BoundedOutput& drawn, std::int64_t row, std::int64_t token) const;
};

// An operand and what it holds before a run. Padding holds NaN.
struct DrawnOperand {
  Operand operand;
  std::int64_t stride = 0;  // elements from line to line
  ElementBuffer contents;   // empty where the operand is not present
};

class ReferenceProblem {
 public:
  // Draws the inputs; the same options give the same bits on every machine. REQUIRES: `matrix`, which is what X is
  // multiplied by, is valid and has the shape of `spec`; it outlives the problem.
  ReferenceProblem(const CsrMatrix& matrix, const OperatorSpec& spec, const ProblemOptions& options);
  // The same of a weight whose rounded values are there: rounded_values(matrix, spec.type).
  ReferenceProblem(const CsrMatrix& matrix, const OperatorSpec& spec, const ProblemOptions& options,
                   RoundedValues values);

  const CsrMatrix& matrix() const { return *matrix_; }
  const OperatorSpec& spec() const { return spec_; }
  const ProblemOptions& options() const { return options_; }
  std::int64_t tokens() const { return options_.tokens; }
  float alpha() const { return options_.alpha; }
  float beta() const { return spec_.epilogue.beta ? options_.beta : 0.0F; }
  NamedValues<float> scalars() const { return {{"alpha", alpha()}, {"beta", beta()}}; }
  const IntegerVariables& variables() const { return variables_; }

  // In the order of spec().operands(). An output that a run adds to holds old values, some of them NaN; another one
  // NaN.
  std::span<const DrawnOperand> operands() const { return operands_; }
  // The one of that name. REQUIRES: the operator has it, present or not.
  const DrawnOperand& operand(std::string_view name) const;
  const ElementBuffer& x() const { return operand("x").contents; }
  const ElementBuffer& initial_y() const { return operand("y").contents; }

  std::span<const float> values() const { return *values_; }
  const RoundedValues& shared_values() const { return values_; }

  // Where (row, token) stands in Y, and (column, token) in X, in elements.
  std::int64_t y_index(std::int64_t row, std::int64_t token) const;
  std::int64_t x_index(std::int64_t column, std::int64_t token) const;

  // S and A in fp64 on the cores of this machine.
  ReferenceSums compute_sums() const;
  // Makes the expected outputs from `sums`. REQUIRES: as many as there are outputs.
  void set_sums(ReferenceSums sums);
  // What was set: the same for every epilogue.
  const ReferenceSums& sums() const { return sums_; }
  bool has_reference() const { return !expected_.empty() || outputs() == 0; }
  BoundedOutput expected(std::int64_t row, std::int64_t token) const;
  // The same of all outputs: at row * tokens + token.
  std::span<const double> expected_values() const { return expected_; }
  std::span<const float> bounds() const { return bounds_; }

  PoisonedInput poisoned_input() const;

 private:
  std::int64_t outputs() const { return spec_.rows * options_.tokens; }
  // The contents of an operand, drawn from its own stream of numbers.
  ElementBuffer draw(const Operand& operand, std::int64_t stride, std::uint64_t stream) const;
  // What a row's sum of poisoned products, the others left out, makes of its output.
  PoisonEffect effect_of(float sum) const;

  const CsrMatrix* matrix_;
  OperatorSpec spec_;
  ProblemOptions options_;
  IntegerVariables variables_;
  RoundedValues values_;
  std::vector<DrawnOperand> operands_;
  ReferenceSums sums_;
  std::vector<double> expected_;  // row * tokens + token
  std::vector<float> bounds_;     // likewise
};

}  // namespace sparsmith
