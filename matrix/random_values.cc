#include "matrix/random_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace sparsmith {

std::uint64_t RandomStream::below(std::uint64_t bound) {
  __extension__ using Product = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Product>(bits()) * bound >> 64);
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

namespace {

// Fills `values`; `dropped_bits` of each mantissa are rounded away, to the nearest even.
void draw_rounded(std::vector<float>& values, int dropped_bits, double scale, std::uint64_t seed) {
  constexpr float kSmallest = 0x1p-14F;  // the smallest normal number of fp16
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = random_bits(seed, i);
    const std::uint64_t sum = (bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48);
    const auto value = static_cast<float>(static_cast<double>(static_cast<std::int32_t>(sum) - 0x1FFFE) * scale);
    auto pattern = std::bit_cast<std::uint32_t>(std::copysign(std::max(std::fabs(value), kSmallest), value));
    const std::uint32_t unit = 1U << dropped_bits;
    if (dropped_bits > 0) pattern += unit / 2 - 1 + ((pattern >> dropped_bits) & 1);
    pattern &= ~(unit - 1);
    values[i] = std::bit_cast<float>(pattern);
  }
}

}  // namespace

void draw_values(CsrMatrix& matrix, std::uint64_t seed) {
  const auto nnz = static_cast<double>(matrix.nnz());
  const double row_mean = matrix.rows == 0 ? 1.0 : nnz / static_cast<double>(matrix.rows);
  // The sum of four 16-bit uniform numbers has mean 2 and variance 1/3 in units of 2^16. All values lie between
  // 2^-14 and 4: normal numbers of every type, so that rounding is a matter of mantissa bits.
  const double scale = std::sqrt(3.0 / std::max(row_mean, 1.0)) * 0x1p-16;
  matrix.values.resize(matrix.column_indices.size());
  const int dropped_bits = matrix.data_type == DataType::kFloat16    ? 13
                           : matrix.data_type == DataType::kBFloat16 ? 16
                                                                     : 0;
  draw_rounded(matrix.values, dropped_bits, scale, seed);
}

}  // namespace sparsmith
