#include "matrix/random_values.h"

#include <algorithm>
#include <cmath>

namespace sparsmith {

std::uint64_t RandomStream::below(std::uint64_t bound) {
  // The upper half of a 64 x 64 bit product, without the compiler's own 128-bit type.
  const std::uint64_t a = bits();
  const std::uint64_t a_high = a >> 32;
  const std::uint64_t a_low = a & 0xFFFFFFFFU;
  const std::uint64_t b_high = bound >> 32;
  const std::uint64_t b_low = bound & 0xFFFFFFFFU;
  const std::uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
  const std::uint64_t cross = a_low * b_high + (middle & 0xFFFFFFFFU);
  return a_high * b_high + (middle >> 32) + (cross >> 32);
}

double RandomStream::normal() {
  std::uint64_t sum = 0;  // of twelve 32-bit uniform numbers: mean 6, variance 1 in units of 2^32
  for (int i = 0; i < 6; ++i) {
    const std::uint64_t pair = bits();
    sum += (pair >> 32) + (pair & 0xFFFFFFFFU);
  }
  return static_cast<double>(sum) * 0x1p-32 - 6.0;
}

double portable_exp(double x) {
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const double k = std::floor(x * 0x1.71547652b82fep+0 + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| <= ln(2) / 2
  double sum = 1.0;
  for (int term = 18; term >= 1; --term) sum = 1.0 + sum * r / term;
  return std::ldexp(sum, static_cast<int>(k));
}

double portable_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2;
    --exponent;
  }
  // log(m) = 2 atanh(s), |s| <= 0.172
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int term = 23; term >= 1; term -= 2) sum = sum * s2 + 1.0 / term;
  return 2 * s * sum + exponent * 0x1.62e42fefa39efp-1;
}

void draw_values(CsrMatrix& matrix, std::uint64_t seed) {
  const auto nnz = static_cast<std::uint64_t>(matrix.nnz());
  const double row_mean = matrix.rows == 0 ? 1.0 : static_cast<double>(nnz) / static_cast<double>(matrix.rows);
  // The sum of four 16-bit uniform numbers has mean 2 and variance 1/3 in units of 2^16.
  const double scale = std::sqrt(3.0 / std::max(row_mean, 1.0)) * 0x1p-16;
  constexpr double kSmallest = 0x1p-14;  // the smallest normal number of fp16
  matrix.values.resize(nnz);
  for (std::uint64_t i = 0; i < nnz; ++i) {
    const std::uint64_t bits = random_bits(seed, i);
    const auto sum =
        static_cast<std::int64_t>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48));
    const double value = static_cast<double>(sum - 0x1FFFE) * scale;
    const double magnitude = std::max(std::fabs(value), kSmallest);
    matrix.values[i] = rounded(static_cast<float>(std::copysign(magnitude, value)), matrix.data_type);
  }
}

}  // namespace sparsmith
