// Random numbers that are the same with every platform and compiler. They are counter-based and computed only with
// integer arithmetic and the exactly rounded operations of IEEE 754 (no std::distribution, no libm).
#pragma once

#include <cstdint>

#include "matrix/csr_matrix.h"

namespace sparsmith {

// The `counter`-th 64 random bits of the stream `seed` (SplitMix64: Steele et al., OOPSLA 2014).
inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// The seed of an independent stream.
inline std::uint64_t substream(std::uint64_t seed, std::uint64_t number) {
  return random_bits(seed ^ 0xD1B54A32D192ED03ULL, number);
}

// Numbers drawn one after the other from one stream.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t bits() { return random_bits(seed_, counter_++); }
  // Uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound);
  // Mean 0 and variance 1, from a sum of twelve uniform numbers, so within (-6, 6).
  double normal();

 private:
  std::uint64_t seed_;
  std::uint64_t counter_ = 0;
};

// e^x and the natural logarithm, from exactly rounded operations; relative error below 1e-13.
// REQUIRES |x| <= 700; x > 0.
double portable_exp(double x);
double portable_log(double x);

// Gives every stored position of `matrix` a value: near-normal with standard deviation 1 / sqrt(mean row length),
// representable in the matrix's type and never zero in it.
void draw_values(CsrMatrix& matrix, std::uint64_t seed);

}  // namespace sparsmith
