// The patterns of a 4 x 4 tile that keep two elements in every row and in every column, for the kernels and for the
// host. Freestanding: includes nothing.
//
// There are 90 (Hubara et al., 2021, "Accelerated Sparse Neural Training": transposable masks). A row keeps one of six
// pairs of columns, and pair 5 - p is what pair p leaves. Rows 0 and 1 keep pairs p and q, and rows 2 and 3 what makes
// every column full:
//
//   class 0   q = 5 - p: rows 2 and 3 keep any pair and what it leaves
//   class 1   q = p: both keep 5 - p
//   else      p and q have a column in common: they keep 5 - p and 5 - q, in either order
//
// The code of a pattern is the pair of row 0, 8 times that of row 2, and 64 times the class. The 12 sets of two pairs
// with a column in common are 4 classes of 3 sets, each of which has every pair once: so the pair of row 0 says that of
// row 1.
//
// Magnitudes are compared as integers. So the host finds the same pattern as a kernel: of those with the greatest sum
// the one with the greatest code.
#pragma once

namespace sparsmith::two_four {

constexpr int kClasses = 6;
constexpr int kPatternCodes = 64 * kClasses;  // those that are none have some pattern
constexpr int kCodeBits = 9;

// 2^23: a float that was added to it has its nearest integer in the lower 23 bits.
constexpr float kToInteger = 8388608.0F;
// The bits of a power of two, which makes a number between 2^17 and 2^18 of the greatest magnitude of a tile. Sums of
// eight then leave room for a code.
constexpr unsigned scale_bits(unsigned bits_of_greatest) {
  const unsigned exponent = bits_of_greatest >> 23;
  return (271 - (exponent < 27 ? 27 : exponent)) << 23;
}

// Pairs in the order of their columns: (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3).
constexpr int first_of_pair(int pair) { return pair < 3 ? 0 : pair < 5 ? 1 : 2; }
constexpr int second_of_pair(int pair) { return pair < 3 ? pair + 1 : pair < 5 ? pair - 1 : 3; }

// Two pairs with a column in common: set 0, 1 or 2 of class 2 + group.
struct TwoPairs {
  int p;
  int q;
};
constexpr TwoPairs two_pairs(int group, int set) {
  const int i = group / 2;
  const int j = group % 2;
  const int k = (i + j) % 2;
  const int a[2] = {i == 0 ? 0 : 5, i == 0 ? 5 : 0};
  const int b[2] = {j == 0 ? 1 : 4, j == 0 ? 4 : 1};
  const int c[2] = {k == 0 ? 2 : 3, k == 0 ? 3 : 2};
  return set == 0 ? TwoPairs{a[0], b[0]} : set == 1 ? TwoPairs{a[1], c[0]} : TwoPairs{b[1], c[1]};
}

// Bit 4 r + c: whether row r keeps column c.
constexpr unsigned pattern_of_pairs(int row0, int row1, int row2, int row3) {
  const auto bits = [](int pair) { return 1U << first_of_pair(pair) | 1U << second_of_pair(pair); };
  return bits(row0) | bits(row1) << 4 | bits(row2) << 8 | bits(row3) << 12;
}
constexpr unsigned pattern_of(int code) {
  const int row0 = code % 8 < 6 ? code % 8 : 0;
  const int row2 = code / 8 % 8 < 6 ? code / 8 % 8 : 0;
  const int group = code / 64 - 2;
  if (group == -2) return pattern_of_pairs(row0, 5 - row0, row2, 5 - row2);
  if (group == -1) return pattern_of_pairs(row0, row0, 5 - row0, 5 - row0);
  int row1 = 0;
  for (int set = 0; set < 3; ++set) {
    const TwoPairs pairs = two_pairs(group, set);
    row1 = pairs.p == row0 ? pairs.q : pairs.q == row0 ? pairs.p : row1;
  }
  return row2 == 5 - row0 ? pattern_of_pairs(row0, row1, 5 - row0, 5 - row1)
                          : pattern_of_pairs(row0, row1, 5 - row1, 5 - row0);
}

// Those of a tile, as multiples of 2^kCodeBits that are at most 2^27.
struct Magnitudes {
  int of[4][4];
};

constexpr int larger(int a, int b) { return a > b ? a : b; }

// The code of the pattern that keeps the greatest sum. Rows 0 and 1, and rows 2 and 3, are compared by themselves where
// the columns that they fill are the same.
constexpr int best_code(const Magnitudes& magnitudes) {
  int pairs[4][6] = {};
  for (int row = 0; row < 4; ++row)
    for (int pair = 0; pair < 6; ++pair)
      pairs[row][pair] = magnitudes.of[row][first_of_pair(pair)] + magnitudes.of[row][second_of_pair(pair)] +
                         (row == 0   ? pair
                          : row == 2 ? 8 * pair
                                     : 0);
  int upper = 0;
  int lower = 0;
  int best = 0;
  for (int pair = 0; pair < 6; ++pair) {
    upper = larger(pairs[0][pair] + pairs[1][5 - pair], upper);
    lower = larger(pairs[2][pair] + pairs[3][5 - pair], lower);
    best = larger(pairs[0][pair] + pairs[1][pair] + pairs[2][5 - pair] + pairs[3][5 - pair], best);
  }
  best = larger(upper + lower, best + 64);
  for (int group = 0; group < 4; ++group) {
    int of_group = 0;
    for (int set = 0; set < 3; ++set) {
      const TwoPairs of = two_pairs(group, set);
      upper = larger(pairs[0][of.p] + pairs[1][of.q], pairs[0][of.q] + pairs[1][of.p]);
      lower = larger(pairs[2][5 - of.p] + pairs[3][5 - of.q], pairs[2][5 - of.q] + pairs[3][5 - of.p]);
      of_group = larger(upper + lower, of_group);
    }
    best = larger(of_group + 64 * (2 + group), best);
  }
  const int code = best % (1 << kCodeBits);
  return code < kPatternCodes ? code : 0;
}

}  // namespace sparsmith::two_four
