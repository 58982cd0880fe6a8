#include "tuner/reference_problem.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "base/parallel_for.h"

namespace sparsmith {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr std::int64_t kNanPeriod = 61;  // of drawn old values of Y one in so many is NaN

// Which input an element is drawn for: keeps their numbers apart.
enum class Stream : std::uint64_t { kX = 1, kBias, kResidual, kY, kPoison };

// 64 bits that depend on nothing but (seed, stream, index), so that any thread draws any element. SplitMix64.
std::uint64_t random_bits(std::uint64_t seed, Stream stream, std::int64_t index) {
  std::uint64_t z = seed * 0xD1342543DE82EF95ULL + static_cast<std::uint64_t>(stream) * 0x9E3779B97F4A7C15ULL +
                    static_cast<std::uint64_t>(index) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// The exponent range [first, first + span) of drawn magnitudes.
struct Exponents {
  int first;
  int span;
};

Exponents exponents_of(InputKind kind, DataType type) {
  switch (kind) {
    case InputKind::kLarge: return type == DataType::kFloat16 ? Exponents{10, 4} : Exponents{60, 8};
    case InputKind::kTiny: return type == DataType::kFloat16 ? Exponents{-14, 3} : Exponents{-100, 8};
    default: return {-4, 6};
  }
}

float draw(std::uint64_t bits, Exponents exponents) {
  const int exponent = exponents.first + static_cast<int>((bits >> 32) % static_cast<std::uint64_t>(exponents.span));
  const float mantissa = 1.0F + static_cast<float>(bits & 0xFFFFFFU) * 0x1p-24F;
  const float value = std::ldexp(mantissa, exponent);
  return (bits >> 63) != 0 ? -value : value;
}

// CPU reference, tokens at a time: the inner loop over these runs on vectors.
constexpr std::int64_t kTokenBlock = 16;

}  // namespace

RoundedValues rounded_values(const CsrMatrix& matrix, DataType type) {
  auto values = std::make_shared<std::vector<float>>(matrix.values.size());
  parallel_for(matrix.nnz(), 1 << 18, [&](std::int64_t begin, std::int64_t end) {
    ElementBuffer element(type, 1);
    for (std::int64_t i = begin; i < end; ++i) {
      element.set(0, matrix.values[i]);
      (*values)[i] = element.get(0);
    }
  });
  return values;
}

ReferenceProblem::ReferenceProblem(const CsrMatrix& matrix, const OperatorSpec& spec, const ProblemOptions& options)
    : ReferenceProblem(matrix, spec, options, rounded_values(matrix, spec.type)) {}

ReferenceProblem::ReferenceProblem(const CsrMatrix& matrix, const OperatorSpec& spec, const ProblemOptions& options,
                                   RoundedValues values)
    : matrix_(&matrix), spec_(spec), options_(options), values_(std::move(values)) {
  const bool token_major = spec.layout == Layout::kTokenMajor;
  variables_.n = options.tokens;
  variables_.ldx = (token_major ? spec.cols : options.tokens) + options.padding;
  variables_.ldy = (token_major ? spec.rows : options.tokens) + options.padding;
  variables_.ldr = variables_.ldy;
  draw_inputs();
}

std::int64_t ReferenceProblem::y_index(std::int64_t row, std::int64_t token) const {
  return spec_.layout == Layout::kTokenMajor ? token * variables_.ldy + row : row * variables_.ldy + token;
}

std::int64_t ReferenceProblem::x_index(std::int64_t column, std::int64_t token) const {
  return spec_.layout == Layout::kTokenMajor ? token * variables_.ldx + column : column * variables_.ldx + token;
}

void ReferenceProblem::draw_inputs() {
  const bool token_major = spec_.layout == Layout::kTokenMajor;
  // An array of `major` lines of `leading` elements, the first `minor` of them drawn, the others NaN.
  const auto matrix_of = [&](std::int64_t major, std::int64_t minor, std::int64_t leading, Stream stream,
                             InputKind kind) {
    ElementBuffer buffer(spec_.type, major * leading);
    const Exponents exponents = exponents_of(kind, spec_.type);
    parallel_for(buffer.size(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float value = kNan;
        const std::uint64_t bits = random_bits(options_.seed, stream, i);
        const bool stays_nan = stream == Stream::kY && bits % kNanPeriod == 0;
        if (i % leading < minor && !stays_nan) value = kind == InputKind::kZeros ? 0.0F : draw(bits, exponents);
        buffer.set(i, value);
      }
    });
    return buffer;
  };
  const auto activations_of = [&](std::int64_t features, std::int64_t leading, Stream stream, InputKind kind) {
    return token_major ? matrix_of(options_.tokens, features, leading, stream, kind)
                       : matrix_of(features, options_.tokens, leading, stream, kind);
  };

  // Bias, residual and old Y stay of ordinary size where X is zero, so that outputs are not all zero.
  const InputKind others = options_.kind == InputKind::kZeros ? InputKind::kVaried : options_.kind;
  x_ = activations_of(spec_.cols, variables_.ldx, Stream::kX, options_.kind);
  // Without beta, or where it is 0, old values must not be read: all of Y is as its padding.
  const std::int64_t lines_of_y = token_major ? options_.tokens : spec_.rows;
  y_ = beta() != 0 ? activations_of(spec_.rows, variables_.ldy, Stream::kY, others)
                   : matrix_of(1, 0, lines_of_y * variables_.ldy, Stream::kY, others);
  if (spec_.epilogue.bias) bias_ = matrix_of(1, spec_.rows, spec_.rows, Stream::kBias, others);
  if (spec_.epilogue.residual) residual_ = activations_of(spec_.rows, variables_.ldr, Stream::kResidual, others);
}

ReferenceSums ReferenceProblem::compute_sums() const {
  ReferenceSums result;
  result.sums.resize(outputs());
  result.magnitudes.resize(outputs());
  std::vector<double> x(spec_.cols * kTokenBlock);  // [K][block]: one line a column of W
  for (std::int64_t first = 0; first < options_.tokens; first += kTokenBlock) {
    const std::int64_t count = std::min(kTokenBlock, options_.tokens - first);
    parallel_for(spec_.cols, 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t column = begin; column < end; ++column)
        for (std::int64_t t = 0; t < kTokenBlock; ++t)
          x[column * kTokenBlock + t] = t < count ? x_.get(x_index(column, first + t)) : 0.0;
    });
    parallel_for(spec_.rows, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::array<double, kTokenBlock> sum{};
        std::array<double, kTokenBlock> magnitude{};
        for (std::int64_t i = matrix_->row_offsets[row]; i < matrix_->row_offsets[row + 1]; ++i) {
          const double w = (*values_)[i];
          if (w == 0) continue;  // rounded away in the operator's type: contributes nothing
          const double* line = &x[matrix_->column_indices[i] * kTokenBlock];
          for (std::int64_t t = 0; t < kTokenBlock; ++t) {
            sum[t] += w * line[t];
            magnitude[t] += std::abs(w * line[t]);
          }
        }
        std::copy_n(sum.begin(), count, &result.sums[row * options_.tokens + first]);
        std::copy_n(magnitude.begin(), count, &result.magnitudes[row * options_.tokens + first]);
      }
    });
  }
  return result;
}

void ReferenceProblem::set_sums(ReferenceSums sums) {
  sums_ = std::move(sums);
  expected_.resize(outputs());
  bounds_.resize(outputs());
  parallel_for(spec_.rows, grain_of_rows(options_.tokens), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      OutputTerms terms;
      terms.alpha = alpha();
      terms.beta = beta();
      terms.length = matrix_->row_length(row);
      if (spec_.epilogue.bias) terms.bias = bias_.get(row);
      for (std::int64_t token = 0; token < options_.tokens; ++token) {
        const std::int64_t i = row * options_.tokens + token;
        terms.sum = sums_.sums[i];
        terms.magnitude = sums_.magnitudes[i];
        if (spec_.epilogue.beta) terms.old_y = y_.get(y_index(row, token));
        if (spec_.epilogue.residual) terms.residual = residual_.get(y_index(row, token));
        const BoundedOutput output = bounded_output(spec_, terms);
        expected_[i] = output.value;
        bounds_[i] = std::nextafter(static_cast<float>(output.bound), kInfinity);
      }
    }
  });
}

BoundedOutput ReferenceProblem::expected(std::int64_t row, std::int64_t token) const {
  const std::int64_t i = row * options_.tokens + token;
  return {expected_[i], bounds_[i]};
}

PoisonEffect ReferenceProblem::effect_of(float sum) const {
  const double output = activate(spec_.epilogue.activation, static_cast<double>(alpha() * sum));
  if (std::isnan(output)) return PoisonEffect::kNan;
  if (!std::isinf(output)) return PoisonEffect::kFinite;
  return output > 0 ? PoisonEffect::kInfinity : PoisonEffect::kNegativeInfinity;
}

PoisonedInput ReferenceProblem::poisoned_input() const {
  constexpr std::int64_t kPeriod = PoisonedInput::kPeriod;
  PoisonedInput poisoned{.x = x_, .effects = std::vector(spec_.rows * kPeriod, PoisonEffect::kNone)};
  if (spec_.cols == 0 || options_.tokens == 0) return poisoned;
  // Padding often repeats the first or the last column; the other two are drawn.
  std::array<std::int64_t, 4> columns = {0, spec_.cols - 1, 0, 0};
  for (int i = 2; i < 4; ++i)
    columns[i] = static_cast<std::int64_t>(random_bits(options_.seed, Stream::kPoison, i) %
                                           static_cast<std::uint64_t>(spec_.cols));
  constexpr std::array<float, 3> kPoison = {kInfinity, -kInfinity, kNan};
  const auto poison = [&](std::int64_t column, std::int64_t token) { return kPoison[(column + token % kPeriod) % 3]; };
  std::vector<bool> is_poisoned(spec_.cols, false);
  for (const std::int64_t column : columns) {
    is_poisoned[column] = true;
    for (std::int64_t token = 0; token < options_.tokens; ++token)
      if (token % kPeriod != kPeriod - 1) poisoned.x.set(x_index(column, token), poison(column, token));
  }
  const std::int64_t nonzeros_a_row = matrix_->nnz() / std::max<std::int64_t>(spec_.rows, 1);
  parallel_for(spec_.rows, grain_of_rows(nonzeros_a_row), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::array<float, kPeriod - 1> sums{};
      bool touches = false;
      bool rounds_to_zero = false;
      for (std::int64_t i = matrix_->row_offsets[row]; i < matrix_->row_offsets[row + 1]; ++i) {
        const std::int64_t column = matrix_->column_indices[i];
        if (!is_poisoned[column]) continue;
        touches = true;
        rounds_to_zero = rounds_to_zero || (*values_)[i] == 0;
        for (std::int64_t t = 0; t < kPeriod - 1; ++t) sums[t] += (*values_)[i] * poison(column, t);
      }
      if (!touches) continue;
      for (std::int64_t t = 0; t < kPeriod - 1; ++t)
        poisoned.effects[row * kPeriod + t] = rounds_to_zero ? PoisonEffect::kUnknown : effect_of(sums[t]);
    }
  });
  return poisoned;
}

BoundedOutput PoisonedInput::expected(DataType type, const BoundedOutput& drawn, std::int64_t row,
                                      std::int64_t token) const {
  if (std::isnan(drawn.value)) return drawn;
  switch (effects[row * kPeriod + token % kPeriod]) {
    case PoisonEffect::kNone: return drawn;
    case PoisonEffect::kFinite: return {0, 0.75 * largest_finite(type)};
    case PoisonEffect::kInfinity: return {kInfinity, drawn.bound};
    case PoisonEffect::kNegativeInfinity: return {-kInfinity, drawn.bound};
    case PoisonEffect::kNan: return {kNan, drawn.bound};
    case PoisonEffect::kUnknown: return {0, kInfinity};
  }
  return drawn;
}

}  // namespace sparsmith
