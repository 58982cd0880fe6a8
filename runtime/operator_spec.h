// What to compute: Y = activation(alpha * W X + bias) + beta * Y + residual, with its types and layout.
//
// The order of the epilogue is fixed: accumulate in fp32, times alpha, plus bias, activation, plus beta * Y
// (the old value), plus residual, round to the output type once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sparsmith/data_type.h"
#include "sparsmith/status.h"

namespace sparsmith {

// How activations lie in memory. token_major: X[N][K], Y[N][M] row-major, as PyTorch's linear layers have
// them; feature_major: X[K][N], Y[M][N].
enum class Layout : std::uint8_t { kTokenMajor, kFeatureMajor };
enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kSilu };  // gelu: the exact one, with erf

std::string_view layout_name(Layout layout);  // "token_major", "feature_major"
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
  std::int64_t rows = 0;               // M
  std::int64_t cols = 0;               // K
  DataType type = DataType::kFloat32;  // of weight, X, Y, bias and residual; accumulation is fp32
  Layout layout = Layout::kTokenMajor;
  Epilogue epilogue{};

  // "spmm_fp16_token_major_bias+relu": everything but the shape.
  std::string name() const;
  // Of that name; its shape is 0 x 0. Error: kInvalidArgument with what is wrong.
  static Result<OperatorSpec> parse(std::string_view name);
  bool operator==(const OperatorSpec&) const = default;
};

}  // namespace sparsmith
