// What to compute: Y = activation(alpha * W X + bias) + beta * Y + residual, or the same with W^T, or, of the pattern
// of W alone, values = alpha * (dY X^T) + beta * values; with its types and layout.
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
// kFp16Chains: kernels of fp16 operators may add up to four products at a time in fp16, then in fp32 (error_bound.h
// says what that costs). Allowed, not demanded: it is done where it is faster.
enum class Accumulation : std::uint8_t { kFp32, kFp16Chains };
enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kSilu };  // gelu: the exact one, with erf

std::string_view operator_kind_name(OperatorKind kind);         // "spmm", "spmm_transposed", "sddmm"
std::string_view layout_name(Layout layout);                    // "token_major", "feature_major"
std::string_view accumulation_name(Accumulation accumulation);  // "fp32", "fp16_chains"
// Of that name; nothing for any other.
std::optional<OperatorKind> operator_kind_of_name(std::string_view name);
std::optional<Accumulation> accumulation_of_name(std::string_view name);
std::string_view activation_name(Activation activation);

struct Epilogue {
  Activation activation = Activation::kNone;
  bool bias = false;      // + bias[M]
  bool beta = false;      // + beta * Y, Y's old value
  bool residual = false;  // + R, in Y's layout with a leading dimension of its own

  // "none", or parts joined by '+': "bias+relu+residual". parse() takes ',' as well.
  std::string name() const;
  static Result<Epilogue> parse(std::string_view text);
  bool operator==(const Epilogue&) const = default;
};

struct OperatorSpec {
  std::int64_t rows = 0;               // M: of Y or dY, and of what is multiplied by X
  std::int64_t cols = 0;               // K: of X
  DataType type = DataType::kFloat32;  // of the weight and of all operands
  Layout layout = Layout::kTokenMajor;
  Epilogue epilogue{};
  Accumulation accumulation = Accumulation::kFp32;  // other than kFp32 only where `type` is fp16
  OperatorKind kind = OperatorKind::kSpmm;
  std::int64_t nnz = 0;  // of the weight, where only its pattern is taken: outputs are as many; 0 otherwise

  // Whether it multiplies by the weight's values; sddmm takes its pattern alone, has no dense choice, and sums over
  // tokens.
  bool multiplies_weight() const { return kind != OperatorKind::kSddmm; }
  // Of the weight.
  std::int64_t weight_rows() const { return kind == OperatorKind::kSpmmTransposed ? cols : rows; }
  std::int64_t weight_cols() const { return kind == OperatorKind::kSpmmTransposed ? rows : cols; }
  // The operator of a weight of that shape.
  void set_weight(std::int64_t weight_rows, std::int64_t weight_cols, std::int64_t weight_nnz);
  // Whether `matrix` has the shape of what is multiplied by X, and the nonzeros of sddmm's weight.
  bool fits(const CsrMatrix& matrix) const;
  // "spmm_fp16_token_major_bias+relu": everything but the shape. With chains "spmm_fp16_chains_token_major_none".
  std::string name() const;
  // x, y, bias [M], residual; those that the epilogue does not have as well, marked so, for which plans are given null.
  // Of sddmm x, dy and values, the last in the order of CSR. Names live forever. What loops over arrays loops over
  // these.
  std::vector<Operand> operands() const;
  // The numbers of the epilogue that a run is given.
  static constexpr std::array<std::string_view, 2> kScalars = {"alpha", "beta"};
  // Error: kInvalidArgument where chains are allowed for another type than fp16, or sddmm has chains, or another
  // epilogue than beta.
  Status check() const;
  // Of that name; its shape is 0 x 0. Error: kInvalidArgument with what is wrong.
  static Result<OperatorSpec> parse(std::string_view name);
  bool operator==(const OperatorSpec&) const = default;
};

// The matrix whose rows are those of Y or dY: the weight, or its transpose. Applied to that matrix, gives the weight
// back.
CsrMatrix multiplied(OperatorKind kind, CsrMatrix matrix);

}  // namespace sparsmith
