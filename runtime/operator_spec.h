// The operator to compute, with its types and layout. spmm: Y = activation(alpha * W X + bias) + beta * Y + residual.
// spmm_transposed: the same with W^T. sddmm: values = alpha * (dY X^T) + beta * values, at the nonzeros of W's pattern.
// Gated spmm, where V = alpha * W X + bias, rounded to the output type, has the rows of a gate and, below them, as many
// rows that it gates: Y = activation(V[0, M/2)) * V[M/2, M) (Shazeer, 2020: GLU variants).
//
// The order of the epilogue is fixed: accumulate, times alpha, plus bias, activation, plus beta * Y
// (the old value), plus residual, round to the output type once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sparsmith/data_type.h"
#include "sparsmith/operand.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct CsrMatrix;

// How activations lie in memory. token_major: X[N][K], Y[N][M] row-major, as PyTorch's linear layers have
// them; feature_major: X[K][N], Y[M][N].
enum class Layout : std::uint8_t { kTokenMajor, kFeatureMajor };
// kFp16Chains: kernels of fp16 operators may add up to four products in fp16, and then continue in fp32 (error_bound.h
// states the additional error). A kernel uses this only when it is faster.
enum class Accumulation : std::uint8_t { kFp32, kFp16Chains };
// gelu: the exact function, with erf; gelu_tanh: its approximation with tanh.
enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kSilu, kGeluTanh };

std::string_view operator_kind_name(OperatorKind kind);         // "spmm", "spmm_transposed", "sddmm"
std::string_view layout_name(Layout layout);                    // "token_major", "feature_major"
std::string_view accumulation_name(Accumulation accumulation);  // "fp32", "fp16_chains"
// The value of that name; no value for other texts.
std::optional<OperatorKind> operator_kind_of_name(std::string_view name);
std::optional<Accumulation> accumulation_of_name(std::string_view name);
std::string_view activation_name(Activation activation);

struct Epilogue {
  Activation activation = Activation::kNone;
  bool bias = false;      // + bias[M]
  bool beta = false;      // + beta * Y, Y's old value
  bool residual = false;  // + R, in Y's layout with its own leading dimension
  bool gated = false;     // Y has half of the rows: the activations of the first half times the second half

  // "none", or parts joined by '+': "bias+relu+residual", "silu+gated". parse() takes ',' as well.
  std::string name() const;
  static Result<Epilogue> parse(std::string_view text);
  bool operator==(const Epilogue&) const = default;
};

struct OperatorSpec {
  std::int64_t rows = 0;               // M: rows of Y or dY, and of the matrix that multiplies X
  std::int64_t cols = 0;               // K: rows of X
  DataType type = DataType::kFloat32;  // of the weight and of all operands
  Layout layout = Layout::kTokenMajor;
  Epilogue epilogue{};
  Accumulation accumulation = Accumulation::kFp32;  // other than kFp32 only where `type` is fp16
  OperatorKind kind = OperatorKind::kSpmm;
  std::int64_t nnz = 0;  // sddmm: nonzeros of the weight, equal to the number of outputs; otherwise 0

  // Whether the operator multiplies by the weight's values. sddmm uses only the pattern, and sums over tokens.
  bool multiplies_weight() const { return kind != OperatorKind::kSddmm; }
  // Of a whole gradient from which the values of sddmm are taken: where beta adds to them, fp32, so that a value is
  // rounded once.
  DataType gradient_type() const { return epilogue.beta ? DataType::kFloat32 : type; }
  std::int64_t output_rows() const { return epilogue.gated ? rows / 2 : rows; }  // of Y
  // The shape of the weight.
  std::int64_t weight_rows() const { return kind == OperatorKind::kSpmmTransposed ? cols : rows; }
  std::int64_t weight_cols() const { return kind == OperatorKind::kSpmmTransposed ? rows : cols; }
  // Sets the operator's shape from the weight's shape.
  void set_weight(std::int64_t weight_rows, std::int64_t weight_cols, std::int64_t weight_nnz);
  // Whether `matrix` has the shape of the matrix that multiplies X and, for sddmm, `nnz` nonzeros.
  bool fits(const CsrMatrix& matrix) const;
  // The operator without its shape: "spmm_fp16_token_major_bias+relu"; with chains "spmm_fp16_chains_token_major_none".
  std::string name() const;
  // x, y, bias [M] and residual. Operands that the epilogue does not have are in the list too, marked as not present:
  // plans get null for them. For sddmm: x, dy, and values in CSR order. Names live forever. Code that loops over arrays
  // uses this list.
  std::vector<Operand> operands() const;
  // The scalars of the epilogue, which each run sets.
  static constexpr std::array<std::string_view, 2> kScalars = {"alpha", "beta"};
  // Error: kInvalidArgument for chains with a type other than fp16, for sddmm with chains or with any epilogue except
  // beta, and for a gated operator with beta, a residual, an odd number of rows or a transposed weight.
  Status check() const;
  // The operator of that name, with shape 0 x 0. Error: kInvalidArgument with the reason.
  static Result<OperatorSpec> parse(std::string_view name);
  bool operator==(const OperatorSpec&) const = default;
};

// The matrix that has the rows of Y or dY: the weight, or its transpose. A second call returns the weight again.
CsrMatrix multiplied(OperatorKind kind, CsrMatrix matrix);

}  // namespace sparsmith
