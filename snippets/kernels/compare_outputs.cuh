// Compares outputs with the expected ones on the device, as tuner/verify/verification.cc does on the CPU, one output at
// a time.
//
// A warp compares 8 rows and 4 tokens, so that it reads whole sectors of Y in either layout. The findings of a block
// are added up in shared memory, in a fixed order; the host adds up the findings of the blocks.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, int kThreads>
struct CompareOutputs {
  SPARSMITH_ROLE(kernel)
  SPARSMITH_TUNE(kThreads, 128, 256, 512)

  // As OutputFindings of tuner/verify/verification.h.
  struct Findings {
    i64 outputs;
    i64 wrong;
    i64 first_wrong;
    double worst;
    double squared_error;
    double squared_reference;

    SPARSMITH_DEVICE void add(const Findings& other) {
      outputs += other.outputs;
      wrong += other.wrong;
      first_wrong = other.first_wrong < first_wrong ? other.first_wrong : first_wrong;
      worst = other.worst > worst ? other.worst : worst;
      squared_error += other.squared_error;
      squared_reference += other.squared_reference;
    }
  };

  // The element (row, token) of y is y[row * row_stride + token * token_stride]; values and bounds are [rows][columns].
  // looked_at: the token of each column; null: all tokens are looked at. effects: [rows][kPeriod], the effects of
  // PoisonedInput in tuner/verify/reference_problem.h on tokens from `first_poisoned` on, or null. `largest`: the
  // largest finite number of y's type. Each block writes to findings[block].
  static SPARSMITH_DEVICE void run(const Value* y, const double* values, const float* bounds, const u8* effects,
                                   i64 first_poisoned, const int* looked_at, i64 rows, i64 columns, i64 row_stride,
                                   i64 token_stride, double largest, Findings* findings, u8* shared) {
    launch_dependents();
    wait_for_previous();
    Findings found = {0, 0, kNone, 0, 0, 0};
    const i64 warps = static_cast<i64>(grid_size_x()) * (kThreads / 32);
    const i64 warp = static_cast<i64>(block_index_x()) * (kThreads / 32) + thread_index() / 32;
    const i64 tiles_a_row = (columns + kTokens - 1) / kTokens;
    const i64 tiles = (rows + kRows - 1) / kRows * tiles_a_row;
    for (i64 tile = warp; tile < tiles; tile += warps) {
      const i64 row = tile / tiles_a_row * kRows + lane_index() % kRows;
      const i64 column = tile % tiles_a_row * kTokens + lane_index() / kRows;
      if (row >= rows || column >= columns) continue;
      const i64 output = row * columns + column;
      const i64 token = looked_at == nullptr ? column : looked_at[column];
      const double actual = static_cast<double>(to_float(y[row * row_stride + token * token_stride]));
      Expected expected = {values[output], static_cast<double>(bounds[output])};
      if (effects != nullptr && token >= first_poisoned)
        expected.poison(effects[row * kPeriod + token % kPeriod], largest);
      look_at(output, actual, expected, largest, found);
    }
    add_up(found, reinterpret_cast<Findings*>(shared));
    if (thread_index() == 0) findings[block_index_x()] = *reinterpret_cast<const Findings*>(shared);
  }

 private:
  static constexpr int kRows = 8;
  static constexpr int kTokens = 4;
  static constexpr i64 kPeriod = 4;
  static constexpr i64 kNone = 0x7FFFFFFFFFFFFFFF;
  static constexpr double kLargestDouble = 0x1.FFFFFFFFFFFFFp1023;
  static_assert(kRows * kTokens == 32, "a warp takes one output a lane");

  static SPARSMITH_DEVICE bool is_finite(double value) { return absolute(value) <= kLargestDouble; }
  static SPARSMITH_DEVICE bool is_infinite(double value) { return absolute(value) > kLargestDouble; }  // not a NaN

  // As PoisonEffect of tuner/verify/reference_problem.h.
  enum Effect : u8 { kNoEffect, kFinite, kInfinity, kNegativeInfinity, kNan, kUnknown };

  struct Expected {
    double value;
    double bound;

    // As PoisonedInput::expected() of tuner/verify/reference_problem.h.
    SPARSMITH_DEVICE void poison(u8 effect, double largest) {
      if (value != value || is_infinite(bound)) return;
      const auto infinity = static_cast<double>(float_from_bits(0x7F800000U));
      if (effect == kInfinity) value = infinity;
      if (effect == kNegativeInfinity) value = -infinity;
      if (effect == kNan) value = infinity - infinity;
      if (effect == kFinite || effect == kUnknown) value = 0;
      if (effect == kFinite) bound = 0.75 * largest;
      if (effect == kUnknown) bound = infinity;
    }

    // As within_bound() of tuner/verify/error_bound.h.
    SPARSMITH_DEVICE bool admits(double actual, double largest) const {
      if (is_infinite(bound)) return true;
      if (value != value) return actual != actual;
      if (is_infinite(value)) return actual == value;
      if (is_infinite(actual)) return absolute(value) + bound >= largest && (actual < 0) == (value < 0);
      return absolute(actual - value) <= bound;
    }
  };

  static SPARSMITH_DEVICE void look_at(i64 output, double actual, const Expected& expected, double largest,
                                       Findings& found) {
    ++found.outputs;
    const double value = expected.value;
    const double bound = expected.bound;
    const bool right = expected.admits(actual, largest);
    if (!right) {
      ++found.wrong;
      found.first_wrong = output < found.first_wrong ? output : found.first_wrong;
    }
    if (!is_finite(value) || !is_finite(bound)) return;
    if (right && is_infinite(actual)) return;  // overflowed, rightly
    const double error = absolute(actual - value);
    const double ratio = error == error ? error / bound : bound / 0.0;  // a NaN is as far off as can be
    found.worst = ratio > found.worst ? ratio : found.worst;
    found.squared_error = multiply_add(error, error, found.squared_error);
    found.squared_reference = multiply_add(value, value, found.squared_reference);
  }

  // Leaves the sum over all threads in all[0], for thread 0 to read.
  static SPARSMITH_DEVICE void add_up(const Findings& own, Findings* all) {
    all[thread_index()] = own;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block_barrier();
      if (thread_index() < half) all[thread_index()].add(all[thread_index() + half]);
    }
  }
};

}  // namespace sparsmith
