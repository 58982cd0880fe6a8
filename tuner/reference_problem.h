// One weight, one operator and one N with drawn inputs and the exact outputs: what candidates are checked against.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
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
  // Of a Y that has more, blocks of tokens are looked at: the first and the last, and drawn ones, as many as that.
  std::int64_t most_outputs = std::int64_t{1} << 26;
};

// Per output, at row * columns + column of the outputs: S and A of error_bound.h.
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

// X with Inf, -Inf and NaN in a few columns, the first and the last among them: at all tokens but one in kPeriod, which
// stays as drawn; where outputs are sums over tokens, at one token of each of these columns.
struct PoisonedInput {
  static constexpr std::int64_t kPeriod = 4;

  ElementBuffer x;
  std::vector<PoisonEffect> effects;  // of the output of (row, token) at row * kPeriod + token % kPeriod

  // The expected output of (row, token) where the drawn X makes `drawn`.
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
  // The operand that a run writes, and what it holds before.
  const DrawnOperand& output() const { return operands_[output_]; }
  const ElementBuffer& initial_output() const { return output().contents; }

  std::span<const float> values() const { return *values_; }
  const RoundedValues& shared_values() const { return values_; }

  // Outputs are counted by row and column: Y's by feature and token; of sddmm, values by place in CSR, with one column.
  // Of a Y that is very large (ProblemOptions::most_outputs) some tokens are columns, and others nobody looks at.
  std::int64_t output_rows() const { return sums_tokens() ? matrix_->nnz() : spec_.rows; }
  std::int64_t output_columns() const { return looks_at_all() ? all_columns() : std::ssize(looked_at_); }
  // Columns that there are in memory.
  std::int64_t all_columns() const { return sums_tokens() ? 1 : options_.tokens; }
  bool looks_at_all() const { return looked_at_.empty(); }
  // Of each column, where not all tokens are.
  std::span<const std::int32_t> looked_at() const { return looked_at_; }
  std::int64_t token_of(std::int64_t column) const { return looks_at_all() ? column : looked_at_[column]; }
  // Whether consecutive rows of the outputs lie side by side, rather than its columns.
  bool rows_are_contiguous() const { return sums_tokens() || spec_.layout == Layout::kTokenMajor; }
  // "y[row 3][token 5]", "values[17]".
  std::string output_name(std::int64_t row, std::int64_t column) const;
  // Where an output stands, and (column, token) in X, in elements.
  std::int64_t output_index(std::int64_t row, std::int64_t column) const;
  std::int64_t x_index(std::int64_t column, std::int64_t token) const { return index_in("x", column, token); }
  // Where (feature, token) stands in an operand that has a line for each of one of the two.
  std::int64_t index_in(std::string_view operand, std::int64_t feature, std::int64_t token) const;

  // S and A in fp64 on the cores of this machine.
  ReferenceSums compute_sums() const;
  // Makes the expected outputs from `sums`. REQUIRES: as many as there are outputs.
  void set_sums(ReferenceSums sums);
  // What was set: the same for every epilogue.
  const ReferenceSums& sums() const { return sums_; }
  bool has_reference() const { return !expected_.empty() || outputs() == 0; }
  BoundedOutput expected(std::int64_t row, std::int64_t column) const;
  // The same of all outputs: at row * columns + column.
  std::span<const double> expected_values() const { return expected_; }
  std::span<const float> bounds() const { return bounds_; }

  PoisonedInput poisoned_input() const;

 private:
  bool sums_tokens() const { return !spec_.multiplies_weight(); }
  std::int64_t outputs() const { return output_rows() * output_columns(); }
  // What an operand holds of kTokenBlock columns of the outputs, or tokens where these are summed, from `first` on:
  // [features][kTokenBlock], 0 behind the last one, `end`.
  std::vector<double> token_block(std::string_view operand, std::int64_t features, std::int64_t first,
                                  std::int64_t end) const;
  void choose_columns();
  ReferenceSums sums_over_columns() const;
  ReferenceSums sums_over_tokens() const;
  // Poison the columns of `poisoned`, and say what that does.
  void poison_columns(std::span<const std::int64_t> columns, PoisonedInput& poisoned) const;
  void poison_tokens(std::span<const std::int64_t> columns, PoisonedInput& poisoned) const;
  // The contents of an operand, drawn from its own stream of numbers.
  ElementBuffer draw(const Operand& operand, std::int64_t stride, std::uint64_t stream) const;
  // What the sum of poisoned products, the others left out, makes of an output.
  PoisonEffect effect_of(float sum) const;

  const CsrMatrix* matrix_;
  OperatorSpec spec_;
  ProblemOptions options_;
  IntegerVariables variables_;
  RoundedValues values_;
  std::vector<DrawnOperand> operands_;
  std::size_t output_ = 0;               // of operands_
  std::vector<std::int32_t> looked_at_;  // tokens, ascending; empty: all
  ReferenceSums sums_;
  std::vector<double> expected_;  // row * columns + column
  std::vector<float> bounds_;     // likewise
};

}  // namespace sparsmith
