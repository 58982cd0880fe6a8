#include "tuner/verify/reference_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/parallel_for.h"

namespace sparsmith {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::array<float, 3> kPoison = {kInfinity, -kInfinity, kNan};

constexpr std::int64_t kNanPeriod = 61;  // of drawn old values of Y one in so many is NaN

// Each kind of drawn numbers has its own stream: operands have 1, 2, ..., other kinds have these.
constexpr std::uint64_t kPoisonStream = 0;
constexpr std::uint64_t kColumnStream = 99;

// 64 bits that depend only on (seed, stream, index), so any thread can draw any element. SplitMix64.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::int64_t index) {
  std::uint64_t z = seed * 0xD1342543DE82EF95ULL + stream * 0x9E3779B97F4A7C15ULL +
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

float drawn_number(std::uint64_t bits, Exponents exponents) {
  const int exponent = exponents.first + static_cast<int>((bits >> 32) % static_cast<std::uint64_t>(exponents.span));
  const float mantissa = 1.0F + static_cast<float>(bits & 0xFFFFFFU) * 0x1p-24F;
  const float value = std::ldexp(mantissa, exponent);
  return (bits >> 63) != 0 ? -value : value;
}

// Tokens per block of the CPU reference. The inner loop over them is vectorized.
constexpr std::int64_t kTokenBlock = 16;

}  // namespace

RoundedValues rounded_values(const CsrMatrix& matrix, DataType type) {
  auto values = std::make_shared<std::vector<float>>(matrix.values.size());
  const auto round = [&](std::int64_t i) { (*values)[i] = rounded(matrix.values[i], type); };
  parallel_each(matrix.nnz(), round, 1 << 18);
  return values;
}

ReferenceProblem::ReferenceProblem(const CsrMatrix& matrix, const OperatorSpec& spec, const ProblemOptions& options,
                                   RoundedValues values)
    : matrix_(&matrix),
      spec_(spec),
      options_(options),
      values_(values != nullptr ? std::move(values) : rounded_values(matrix, spec.type)) {
  variables_.n = options.tokens;
  for (const Operand& operand : spec.operands()) {
    DrawnOperand drawn;
    drawn.operand = operand;
    if (operand.has_stride) {
      drawn.stride = operand.length.of(options.tokens) + options.padding;
      variables_.strides.set(operand.name, drawn.stride);
    }
    if (operand.access != Access::kIn) output_ = operands_.size();
    if (operand.present) drawn.contents = draw(operand, drawn.stride, operands_.size() + 1);
    operands_.push_back(std::move(drawn));
  }
  choose_columns();
}

std::int64_t ReferenceProblem::operand_bytes() const {
  std::int64_t bytes = 0;
  for (const DrawnOperand& drawn : operands_) bytes += std::ssize(drawn.contents.bytes());
  return bytes;
}

const DrawnOperand& ReferenceProblem::operand(std::string_view name) const {
  return *std::ranges::find(operands_, name, [](const DrawnOperand& drawn) { return drawn.operand.name; });
}

std::int64_t ReferenceProblem::index_in(std::string_view name, std::int64_t feature, std::int64_t token) const {
  const std::int64_t stride = operand(name).stride;
  return spec_.layout == Layout::kTokenMajor ? token * stride + feature : feature * stride + token;
}

std::int64_t ReferenceProblem::output_index(std::int64_t row, std::int64_t column) const {
  return sums_tokens() ? row : index_in(output().operand.name, row, token_of(column));
}

std::string ReferenceProblem::output_name(std::int64_t row, std::int64_t column) const {
  const std::string_view name = output().operand.name;
  return sums_tokens() ? fmt::format("{}[{}]", name, row)
                       : fmt::format("{}[row {}][token {}]", name, row, token_of(column));
}

ElementBuffer ReferenceProblem::draw(const Operand& operand, std::int64_t stride, std::uint64_t stream) const {
  // The others stay of ordinary size where X is zero, so that outputs are not all zero, and so does what is multiplied
  // by X.
  const bool is_first = stream == 1;
  const bool is_factor = sums_tokens() && operand.access == Access::kIn;
  const bool is_ordinary = !is_first && (is_factor || options_.kind == InputKind::kZeros);
  const InputKind kind = is_ordinary ? InputKind::kVaried : options_.kind;
  const Exponents exponents = exponents_of(kind, operand.type);
  const bool is_input = operand.access == Access::kIn;
  const bool is_read = is_input || beta() != 0;  // otherwise old values must not be read: all is as padding
  const std::int64_t length = operand.length.of(options_.tokens);
  const std::int64_t leading = operand.has_stride ? stride : std::max<std::int64_t>(length, 1);
  ElementBuffer buffer(operand.type, operand.elements(options_.tokens, stride));
  const auto draw_one = [&](std::int64_t i) {
    float value = kNan;
    const std::uint64_t bits = random_bits(options_.seed, stream, i);
    const bool stays_nan = !is_read || (!is_input && bits % kNanPeriod == 0);
    if (i % leading < length && !stays_nan) value = kind == InputKind::kZeros ? 0.0F : drawn_number(bits, exponents);
    buffer.set(i, value);
  };
  parallel_each(buffer.size(), draw_one, 1 << 16);
  return buffer;
}

void ReferenceProblem::choose_columns() {
  if (sums_tokens() || outputs() <= options_.most_outputs) return;
  const std::int64_t blocks = (options_.tokens + kTokenBlock - 1) / kTokenBlock;
  const std::int64_t most = options_.most_outputs / (spec_.rows * kTokenBlock);
  std::set<std::int64_t> chosen = {0, blocks - 1};
  for (std::int64_t i = 0; std::ssize(chosen) < std::min(most, blocks); ++i)
    chosen.insert(
        static_cast<std::int64_t>(random_bits(options_.seed, kColumnStream, i) % static_cast<std::uint64_t>(blocks)));
  for (const std::int64_t block : chosen) {
    const std::int64_t end = std::min(options_.tokens, (block + 1) * kTokenBlock);
    for (std::int64_t token = block * kTokenBlock; token < end; ++token)
      looked_at_.push_back(static_cast<std::int32_t>(token));
  }
}

std::vector<double> ReferenceProblem::token_block(std::string_view name, std::int64_t features, std::int64_t first,
                                                  std::int64_t end) const {
  const ElementBuffer& drawn = operand(name).contents;
  const std::int64_t count = std::min(kTokenBlock, end - first);
  std::vector<double> block(features * kTokenBlock);
  const auto read = [&](std::int64_t feature) {
    for (std::int64_t t = 0; t < count; ++t)
      block[feature * kTokenBlock + t] = drawn.get(index_in(name, feature, token_of(first + t)));
  };
  parallel_each(features, read, 1024);
  return block;
}

ReferenceSums ReferenceProblem::sums_over_columns() const {
  const std::int64_t columns = output_columns();
  ReferenceSums result{std::vector<double>(spec_.rows * columns), std::vector<double>(spec_.rows * columns)};
  for (std::int64_t first = 0; first < columns; first += kTokenBlock) {
    const std::int64_t count = std::min(kTokenBlock, columns - first);
    const std::vector<double> x = token_block("x", spec_.cols, first, columns);
    const auto sum_row = [&](std::int64_t row) {
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
      std::copy_n(sum.begin(), count, &result.sums[row * columns + first]);
      std::copy_n(magnitude.begin(), count, &result.magnitudes[row * columns + first]);
    };
    parallel_each(spec_.rows, sum_row, 16);
  }
  return result;
}

ReferenceSums ReferenceProblem::sums_over_tokens() const {
  ReferenceSums result{std::vector<double>(outputs()), std::vector<double>(outputs())};
  for (std::int64_t first = 0; first < options_.tokens; first += kTokenBlock) {
    const std::vector<double> x = token_block("x", spec_.cols, first, options_.tokens);
    const std::vector<double> dy = token_block("dy", spec_.rows, first, options_.tokens);
    const auto add_row = [&](std::int64_t row) {
      for (std::int64_t i = matrix_->row_offsets[row]; i < matrix_->row_offsets[row + 1]; ++i) {
        for (std::int64_t t = 0; t < kTokenBlock; ++t) {
          const double product = dy[row * kTokenBlock + t] * x[matrix_->column_indices[i] * kTokenBlock + t];
          result.sums[i] += product;
          result.magnitudes[i] += std::abs(product);
        }
      }
    };
    parallel_each(spec_.rows, add_row, 16);
  }
  return result;
}

ReferenceSums ReferenceProblem::compute_sums() const {
  return sums_tokens() ? sums_over_tokens() : sums_over_columns();
}

void ReferenceProblem::set_sums(ReferenceSums sums) {
  sums_ = std::move(sums);
  expected_.resize(outputs());
  bounds_.resize(outputs());
  const ElementBuffer* const bias = spec_.epilogue.bias ? &operand("bias").contents : nullptr;
  const ElementBuffer* const residual = spec_.epilogue.residual ? &operand("residual").contents : nullptr;
  const ElementBuffer& old = initial_output();
  const std::int64_t columns = output_columns();
  if (spec_.epilogue.gated) return bound_gated();
  const auto bound_row = [&](std::int64_t row) {
    OutputTerms terms;
    terms.alpha = alpha();
    terms.beta = beta();
    terms.length = sums_tokens() ? options_.tokens : matrix_->row_length(row);
    if (bias != nullptr) terms.bias = bias->get(row);
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t i = row * columns + column;
      terms.sum = sums_.sums[i];
      terms.magnitude = sums_.magnitudes[i];
      if (spec_.epilogue.beta) terms.old_y = old.get(output_index(row, column));
      if (residual != nullptr) terms.residual = residual->get(index_in("residual", row, token_of(column)));
      const BoundedOutput output = bounded_output(spec_, terms);
      expected_[i] = output.value;
      bounds_[i] = std::nextafter(static_cast<float>(output.bound), kInfinity);
    }
  };
  parallel_each(output_rows(), bound_row, grain_of_rows(columns));
}

void ReferenceProblem::bound_gated() {
  OperatorSpec values = spec_;
  values.epilogue = {.bias = spec_.epilogue.bias};
  const std::int64_t columns = output_columns();
  const auto value_at = [&](std::int64_t row, std::int64_t column) {
    const std::int64_t i = row * columns + column;
    OutputTerms terms{.sum = sums_.sums[i], .magnitude = sums_.magnitudes[i], .length = matrix_->row_length(row)};
    terms.alpha = alpha();
    if (spec_.epilogue.bias) terms.bias = operand("bias").contents.get(row);
    return bounded_output(values, terms);
  };
  const auto bound_row = [&](std::int64_t row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const BoundedOutput output = gated_output(spec_, value_at(row, column), value_at(output_rows() + row, column));
      expected_[row * columns + column] = output.value;
      bounds_[row * columns + column] = std::nextafter(static_cast<float>(output.bound), kInfinity);
    }
  };
  parallel_each(output_rows(), bound_row, grain_of_rows(columns));
}

BoundedOutput ReferenceProblem::expected(std::int64_t row, std::int64_t column) const {
  const std::int64_t i = row * output_columns() + column;
  return {expected_[i], bounds_[i]};
}

PoisonEffect ReferenceProblem::effect_of(Activation activation, float sum) const {
  const double output = activate(activation, static_cast<double>(alpha() * sum));
  if (std::isnan(output)) return PoisonEffect::kNan;
  if (!std::isinf(output)) return PoisonEffect::kFinite;
  return output > 0 ? PoisonEffect::kInfinity : PoisonEffect::kNegativeInfinity;
}

// NaN times anything is NaN. An infinity times a number may be either infinity or NaN.
std::vector<PoisonEffect> ReferenceProblem::gated_effects(std::span<const PoisonEffect> rows) const {
  const std::size_t half = rows.size() / 2;
  std::vector<PoisonEffect> effects(half);
  for (std::size_t i = 0; i < half; ++i) {
    const PoisonEffect gate = rows[i];
    const PoisonEffect up = rows[half + i];
    if (gate == PoisonEffect::kNone && up == PoisonEffect::kNone) {
      effects[i] = PoisonEffect::kNone;
    } else {
      const bool is_nan = gate == PoisonEffect::kNan || up == PoisonEffect::kNan;
      effects[i] = is_nan ? PoisonEffect::kNan : PoisonEffect::kUnknown;
    }
  }
  return effects;
}

PoisonedInput ReferenceProblem::poisoned_input() const {
  PoisonedInput poisoned{.x = x(), .effects = std::vector(sum_rows() * PoisonedInput::kPeriod, PoisonEffect::kNone)};
  if (spec_.cols == 0 || options_.tokens == 0) {
    poisoned.effects.resize(output_rows() * PoisonedInput::kPeriod);
    return poisoned;
  }
  // Padding often repeats the first or the last column; the other two are drawn.
  std::array<std::int64_t, 4> columns = {0, spec_.cols - 1, 0, 0};
  for (int i = 2; i < 4; ++i)
    columns[i] = static_cast<std::int64_t>(random_bits(options_.seed, kPoisonStream, i) %
                                           static_cast<std::uint64_t>(spec_.cols));
  if (sums_tokens()) {
    poison_tokens(columns, poisoned);
  } else {
    poisoned.first_token = std::max<std::int64_t>(options_.tokens - PoisonedInput::kMostTokens, 0);
    poison_columns(columns, poisoned);
    if (spec_.epilogue.gated) poisoned.effects = gated_effects(poisoned.effects);
  }
  return poisoned;
}

void ReferenceProblem::poison_columns(std::span<const std::int64_t> columns, PoisonedInput& poisoned) const {
  constexpr std::int64_t kPeriod = PoisonedInput::kPeriod;
  const auto poison = [&](std::int64_t column, std::int64_t token) { return kPoison[(column + token % kPeriod) % 3]; };
  std::vector<bool> is_poisoned(spec_.cols, false);
  for (const std::int64_t column : columns) {
    is_poisoned[column] = true;
    for (std::int64_t token = poisoned.first_token; token < options_.tokens; ++token)
      if (token % kPeriod != kPeriod - 1) poisoned.x.set(x_index(column, token), poison(column, token));
  }
  const std::int64_t nonzeros_a_row = matrix_->nnz() / std::max<std::int64_t>(spec_.rows, 1);
  const auto note_effects = [&](std::int64_t row) {
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
    const bool is_up = spec_.epilogue.gated && row >= output_rows();  // it has no activation
    const Activation activation = is_up ? Activation::kNone : spec_.epilogue.activation;
    for (std::int64_t t = 0; t < kPeriod - 1 && touches; ++t)
      poisoned.effects[row * kPeriod + t] = rounds_to_zero ? PoisonEffect::kUnknown : effect_of(activation, sums[t]);
  };
  parallel_each(spec_.rows, note_effects, grain_of_rows(nonzeros_a_row));
}

void ReferenceProblem::poison_tokens(std::span<const std::int64_t> columns, PoisonedInput& poisoned) const {
  const auto token_of = [&](std::int64_t column) {
    return static_cast<std::int64_t>(random_bits(options_.seed, kPoisonStream, spec_.cols + column) %
                                     static_cast<std::uint64_t>(options_.tokens));
  };
  std::vector<bool> is_poisoned(spec_.cols, false);
  for (const std::int64_t column : columns) {
    is_poisoned[column] = true;
    poisoned.x.set(x_index(column, token_of(column)), kPoison[column % 3]);
  }
  const ElementBuffer& dy = operand("dy").contents;
  for (std::int64_t row = 0; row < spec_.rows; ++row) {
    for (std::int64_t i = matrix_->row_offsets[row]; i < matrix_->row_offsets[row + 1]; ++i) {
      const std::int64_t column = matrix_->column_indices[i];
      if (!is_poisoned[column]) continue;
      const float factor = dy.get(index_in("dy", row, token_of(column)));
      poisoned.effects[i * PoisonedInput::kPeriod] = effect_of(Activation::kNone, factor * kPoison[column % 3]);
    }
  }
}

BoundedOutput PoisonedInput::expected(DataType type, const BoundedOutput& drawn, std::int64_t row,
                                      std::int64_t token) const {
  if (token < first_token || std::isnan(drawn.value) || std::isinf(drawn.bound)) return drawn;
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
