// The largest error that a correct kernel's output may have.
//
// Y = activation(alpha * S + bias) + beta * Y0 + R with S = sum w x over the `len` nonzeros of a row, everything
// accumulated in fp32 (u = 2^-24) and rounded to the output type once. With A = sum |w x|, z = alpha * S + bias and
// a = activation(z), the reference is computed in fp64, and a kernel's error is at most
//
//   e_S = len * u * A + len * 2^-149                          any order of summation; products that underflow
//         + 4.01 v A + len * 2^-25                            with chains of four in fp16 (v = 2^-11), where A is
//         smaller
//                                                             than 65,504; where it is not, nothing is asked
//   e_z = |alpha| * e_S  + u * |alpha| * A                    the second term where alpha != 1
//                        + u * (|alpha| * A + |bias|)         with a bias
//   e_a = L * e_z + 4 u * |z|                                 L: Lipschitz constant of the activation (none and relu 1,
//                                                             gelu and gelu_tanh 1.13, silu 1.1); second term: these,
//                                                             whose exp and erf have errors of a few ulp
//   e_y = e_a + u * (|a| + 2 |beta * Y0|)                     with beta
//             + u * (|a| + |beta * Y0| + |R|)                 with a residual
//
//   bound = 2 * (e_y + 1 ulp of the output type at |y|)
//
// The bound of a gated output is in gated_output().
//
// For the plain operator this is 2 * (len * 2^-24 * sum |w x| + 1 ulp). A zero of W contributes nothing, even when x is
// Inf or NaN. When the exact value is Inf or NaN because an input is, the output must be the same.
#pragma once

#include <cstdint>

#include "runtime/operator_spec.h"

namespace sparsmith {

// The terms of one output.
struct OutputTerms {
  double sum = 0;           // S
  double magnitude = 0;     // A
  std::int64_t length = 0;  // len
  double alpha = 1;
  double beta = 0;
  double bias = 0;
  double old_y = 0;
  double residual = 0;
};

struct BoundedOutput {
  double value = 0;
  double bound = 0;  // 0 when the value is not finite
};

// activation(z) in fp64.
double activate(Activation activation, double z);

// The distance from |value| to the next larger number of a floating `type`, denormals included.
double ulp(DataType type, double value);

// The largest finite number of a floating `type`.
double largest_finite(DataType type);

BoundedOutput bounded_output(const OperatorSpec& spec, const OutputTerms& terms);

// Y = a * v of a gated operator, with a = activation(g), where kernels may round g and v to the output type. `gate`,
// `up`: g and v with their bounds b_g and b_v, as bounded_output() gives them without activation. With e_a = L * b_g +
// 4 u * |g|, the bound is e_a * (|v| + b_v) + |a| * b_v + 2 * (u * |y| + 1 ulp of the output type at |y|). Nothing is
// asked where g or v may overflow.
BoundedOutput gated_output(const OperatorSpec& spec, const BoundedOutput& gate, const BoundedOutput& up);

// Whether `y` is correct for `expected`. NaN and Inf are correct only when expected, with one exception: when a finite
// exact value overflows the type, or is within the bound of an overflow, an infinity of its sign is correct too. When
// the bound is infinite every `y` is correct.
bool within_bound(DataType type, const BoundedOutput& expected, float y);

}  // namespace sparsmith
