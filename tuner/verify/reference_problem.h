// One weight, one operator and one N, with drawn inputs and the exact outputs. Candidates are checked against it.
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
#include "tuner/verify/element_buffer.h"
#include "tuner/verify/error_bound.h"

namespace sparsmith {

// The magnitude of drawn inputs. Signs are always drawn.
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
  float beta = 0.5F;  // used when the epilogue has beta
  // A larger Y is checked in part: in the first and the last block of tokens, and in drawn blocks, up to this number of
  // outputs.
  std::int64_t most_outputs = std::int64_t{1} << 26;
};

// S and A of error_bound.h for each output, at row * columns + column.
struct ReferenceSums {
  std::vector<double> sums;
  std::vector<double> magnitudes;
};

// The nonzeros rounded to `type`, as every candidate has them.
using RoundedValues = std::shared_ptr<const std::vector<float>>;
RoundedValues rounded_values(const CsrMatrix& matrix, DataType type);

// The effect of Inf and NaN in X on an output.
enum class PoisonEffect : std::uint8_t {
  kNone,    // the row stores no weight where X is poisoned
  kFinite,  // any finite number: relu makes 0 of -Inf
  kInfinity,
  kNegativeInfinity,
  kNan,
  kUnknown,  // not checked: the type of the operator rounds a stored weight to 0
};

// X with Inf, -Inf and NaN in a few columns, with the first and the last. In these columns the last kMostTokens tokens
// have them, because some kernels take far longer for an output that is not finite. One token of kPeriod stays as
// drawn. When outputs are sums over tokens, only one token of each column has them.
struct PoisonedInput {
  static constexpr std::int64_t kPeriod = 4;
  static constexpr std::int64_t kMostTokens = 256;

  ElementBuffer x;
  std::int64_t first_token = 0;       // those before it stay as drawn
  std::vector<PoisonEffect> effects;  // of output (row, token): at row * kPeriod + token % kPeriod

  // The expected output (row, token). `drawn`: the expected output for the drawn X.
  BoundedOutput expected(DataType type, const BoundedOutput& drawn, std::int64_t row, std::int64_t token) const;
};

// An operand with its contents before a run. Padding holds NaN.
struct DrawnOperand {
  Operand operand;
  std::int64_t stride = 0;  // elements from line to line
  ElementBuffer contents;   // empty when the operand is not present
};

class ReferenceProblem {
 public:
  // Draws the inputs. The same options give the same bits on every machine. REQUIRES: `matrix`, which multiplies X, is
  // valid, has the shape of `spec`, and outlives the problem. `values`: rounded_values(matrix, spec.type), or null.
  ReferenceProblem(const CsrMatrix& matrix, const OperatorSpec& spec, const ProblemOptions& options,
                   RoundedValues values = nullptr);

  const CsrMatrix& matrix() const { return *matrix_; }
  const OperatorSpec& spec() const { return spec_; }
  const ProblemOptions& options() const { return options_; }
  std::int64_t tokens() const { return options_.tokens; }
  float alpha() const { return options_.alpha; }
  float beta() const { return spec_.epilogue.beta ? options_.beta : 0.0F; }
  NamedValues<float> scalars() const { return {{"alpha", alpha()}, {"beta", beta()}}; }
  const IntegerVariables& variables() const { return variables_; }

  // In the order of spec().operands(). An output that a run adds to holds old values, some of them NaN. Any other
  // output holds NaN.
  std::span<const DrawnOperand> operands() const { return operands_; }
  // Of all operands together, with their padding.
  std::int64_t operand_bytes() const;
  // The operand of that name. REQUIRES: spec().operands() has it, present or not.
  const DrawnOperand& operand(std::string_view name) const;
  const ElementBuffer& x() const { return operand("x").contents; }
  // The operand that a run writes, and its contents before the run.
  const DrawnOperand& output() const { return operands_[output_]; }
  const ElementBuffer& initial_output() const { return output().contents; }

  std::span<const float> values() const { return *values_; }
  const RoundedValues& shared_values() const { return values_; }

  // Outputs have a row and a column. For Y these are feature and token. For sddmm the row is the place in CSR, and
  // there is one column. For a very large Y (ProblemOptions::most_outputs) only some tokens are columns; the others are
  // not checked.
  std::int64_t output_rows() const { return sums_tokens() ? matrix_->nnz() : spec_.output_rows(); }
  // The rows of S and A: twice those of the outputs of a gated operator.
  std::int64_t sum_rows() const { return sums_tokens() ? matrix_->nnz() : spec_.rows; }
  std::int64_t output_columns() const { return looks_at_all() ? all_columns() : std::ssize(looked_at_); }
  // The number of columns in memory.
  std::int64_t all_columns() const { return sums_tokens() ? 1 : options_.tokens; }
  bool looks_at_all() const { return looked_at_.empty(); }
  // The token of each column; empty when all tokens are columns.
  std::span<const std::int32_t> looked_at() const { return looked_at_; }
  std::int64_t token_of(std::int64_t column) const { return looks_at_all() ? column : looked_at_[column]; }
  // Whether consecutive rows of the outputs are adjacent in memory; otherwise consecutive columns are.
  bool rows_are_contiguous() const { return sums_tokens() || spec_.layout == Layout::kTokenMajor; }
  // "y[row 3][token 5]", "values[17]".
  std::string output_name(std::int64_t row, std::int64_t column) const;
  // The element index of an output, and of (column, token) in X.
  std::int64_t output_index(std::int64_t row, std::int64_t column) const;
  std::int64_t x_index(std::int64_t column, std::int64_t token) const { return index_in("x", column, token); }
  // The element index of (feature, token) in an operand with one line per feature or per token.
  std::int64_t index_in(std::string_view operand, std::int64_t feature, std::int64_t token) const;

  // Computes S and A in fp64 on the cores of this machine.
  ReferenceSums compute_sums() const;
  // Computes the expected outputs from `sums`: [sum_rows()][output_columns()].
  void set_sums(ReferenceSums sums);
  // The sums from set_sums(). They are the same for every epilogue.
  const ReferenceSums& sums() const { return sums_; }
  bool has_reference() const { return !expected_.empty() || outputs() == 0; }
  BoundedOutput expected(std::int64_t row, std::int64_t column) const;
  // The same for all outputs, at row * columns + column.
  std::span<const double> expected_values() const { return expected_; }
  std::span<const float> bounds() const { return bounds_; }

  PoisonedInput poisoned_input() const;

 private:
  bool sums_tokens() const { return !spec_.multiplies_weight(); }
  std::int64_t outputs() const { return output_rows() * output_columns(); }
  // The elements of an operand for kTokenBlock columns of the outputs (or tokens, when outputs are sums over tokens)
  // from `first`: [features][kTokenBlock], with 0 from `end` on.
  std::vector<double> token_block(std::string_view operand, std::int64_t features, std::int64_t first,
                                  std::int64_t end) const;
  void choose_columns();
  ReferenceSums sums_over_columns() const;
  ReferenceSums sums_over_tokens() const;
  void bound_gated();  // set_sums() of a gated operator
  // These poison `columns` of `poisoned` and set its effects.
  void poison_columns(std::span<const std::int64_t> columns, PoisonedInput& poisoned) const;
  void poison_tokens(std::span<const std::int64_t> columns, PoisonedInput& poisoned) const;
  // The contents of an operand, drawn from its own stream of numbers.
  ElementBuffer draw(const Operand& operand, std::int64_t stride, std::uint64_t stream) const;
  // What activation(alpha * sum + bias) is for the sum of a row's poisoned products.
  PoisonEffect effect_of(Activation activation, float sum) const;
  // The effects on outputs of those on the rows of V.
  std::vector<PoisonEffect> gated_effects(std::span<const PoisonEffect> rows) const;

  const CsrMatrix* matrix_;
  OperatorSpec spec_;
  ProblemOptions options_;
  IntegerVariables variables_;
  RoundedValues values_;
  std::vector<DrawnOperand> operands_;
  std::size_t output_ = 0;               // index in operands_
  std::vector<std::int32_t> looked_at_;  // tokens in ascending order; empty: all
  ReferenceSums sums_;
  std::vector<double> expected_;  // row * columns + column
  std::vector<float> bounds_;     // likewise
};

}  // namespace sparsmith
