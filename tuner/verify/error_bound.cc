#include "tuner/verify/error_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace sparsmith {
namespace {

constexpr double kRounding = 0x1p-24;          // u: half an ulp of fp32, relative
constexpr double kSmallestProduct = 0x1p-149;  // what an fp32 product loses at most when it underflows
// The error of a chain: four roundings, each of at most the sum of the products so far, and a little more for earlier
// errors.
constexpr double kChainRounding = 4.01 * 0x1p-11;
constexpr double kSmallestChain = 0x1p-25;  // what a rounding loses at most where the result is denormal

struct FloatFormat {
  int mantissa_bits;  // stored ones
  int min_exponent;   // of normal numbers
  double largest;
};

FloatFormat format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {10, -14, 65504.0};
    case DataType::kBFloat16: return {7, -126, 0x1.FEp127};
    default: return {23, -126, 0x1.FFFFFEp127};
  }
}

// The error of activation(z), where z has `error`: by Lipschitz constants, and errors of exp and erf.
double activated_error(Activation activation, double z, double error) {
  if (activation == Activation::kNone || activation == Activation::kRelu) return error;
  return (activation == Activation::kSilu ? 1.1 : 1.13) * error + 4 * kRounding * std::abs(z);
}

}  // namespace

double activate(Activation activation, double z) {
  switch (activation) {
    case Activation::kNone: return z;
    case Activation::kRelu: return z <= 0 ? 0 : z;  // NaN stays NaN
    case Activation::kGelu: return 0.5 * z * std::erfc(-z / std::sqrt(2.0));
    case Activation::kSilu: return z / (1.0 + std::exp(-z));
    case Activation::kGeluTanh:
      return z / (1.0 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z)));
  }
  return z;
}

double ulp(DataType type, double value) {
  const FloatFormat format = format_of(type);
  int exponent = format.min_exponent;
  if (value != 0 && std::isfinite(value)) exponent = std::max(exponent, std::ilogb(value));
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

double largest_finite(DataType type) { return format_of(type).largest; }

BoundedOutput bounded_output(const OperatorSpec& spec, const OutputTerms& terms) {
  const Epilogue& epilogue = spec.epilogue;
  const double length = static_cast<double>(terms.length);
  const double alpha = std::abs(terms.alpha);

  double error = alpha * length * (kRounding * terms.magnitude + kSmallestProduct);
  if (spec.accumulation == Accumulation::kFp16Chains) {
    error += alpha * (kChainRounding * terms.magnitude + kSmallestChain * length);
    if (terms.magnitude * (1 + kChainRounding) >= largest_finite(DataType::kFloat16))
      error = std::numeric_limits<double>::infinity();
  }
  if (terms.alpha != 1) error += kRounding * alpha * terms.magnitude;
  double z = terms.alpha * terms.sum;
  if (epilogue.bias) {
    z += terms.bias;
    error += kRounding * (alpha * terms.magnitude + std::abs(terms.bias));
  }

  error = activated_error(epilogue.activation, z, error);
  const double activated = activate(epilogue.activation, z);

  double value = activated;
  const double scaled = epilogue.beta && terms.beta != 0 ? terms.beta * terms.old_y : 0.0;
  if (epilogue.beta) {
    value += scaled;
    error += kRounding * (std::abs(activated) + 2 * std::abs(scaled));
  }
  if (epilogue.residual) {
    value += terms.residual;
    error += kRounding * (std::abs(activated) + std::abs(scaled) + std::abs(terms.residual));
  }
  if (!std::isfinite(value)) return {value, 0};
  return {value, 2 * (error + ulp(spec.type, value))};
}

BoundedOutput gated_output(const OperatorSpec& spec, const BoundedOutput& gate, const BoundedOutput& up) {
  const double activated = activate(spec.epilogue.activation, gate.value);
  const double value = activated * up.value;
  const double largest = largest_finite(spec.type);
  const auto may_overflow = [&](const BoundedOutput& v) {
    return !std::isinf(v.value) && !std::isnan(v.value) && std::abs(v.value) + v.bound >= largest;
  };
  if (may_overflow(gate) || may_overflow(up)) return {0, std::numeric_limits<double>::infinity()};
  if (!std::isfinite(value)) return {value, 0};
  const double error = activated_error(spec.epilogue.activation, gate.value, gate.bound);
  return {value, error * (std::abs(up.value) + up.bound) + std::abs(activated) * up.bound +
                     2 * (kRounding * std::abs(value) + ulp(spec.type, value))};
}

bool within_bound(DataType type, const BoundedOutput& expected, float y) {
  if (std::isinf(expected.bound)) return true;
  if (std::isnan(expected.value)) return std::isnan(y);
  if (std::isinf(expected.value)) return static_cast<double>(y) == expected.value;
  if (std::isinf(y)) {
    const bool may_overflow = std::abs(expected.value) + expected.bound >= largest_finite(type);
    return may_overflow && std::signbit(y) == std::signbit(expected.value);
  }
  return std::abs(static_cast<double>(y) - expected.value) <= expected.bound;  // never so for a NaN
}

}  // namespace sparsmith
