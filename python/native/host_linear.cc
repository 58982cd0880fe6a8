#include "python/native/host_linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/parallel_for.h"

namespace sparsmith::torch {
namespace {

constexpr std::int64_t kTokensOfATile = 64;

float read(const void* data, std::int64_t index, DataType type) {
  if (type == DataType::kFloat32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return type == DataType::kFloat16 ? float_from_fp16(bits) : float_from_bf16(bits);
}

void write(void* data, std::int64_t index, DataType type, float value) {
  if (type == DataType::kFloat32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] =
        type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
  }
}

float activated(Activation activation, float value) {
  switch (activation) {
    case Activation::kNone: return value;
    case Activation::kRelu: return value > 0 || std::isnan(value) ? value : 0.0F;
    case Activation::kGelu: return 0.5F * value * (1.0F + std::erf(value * 0.70710678F));
    case Activation::kSilu: return value / (1.0F + std::exp(-value));
    case Activation::kGeluTanh:
      return value / (1.0F + std::exp(-1.5957691F * (value + 0.044715F * value * value * value)));
  }
  return value;
}

}  // namespace

void host_linear(const CsrMatrix& weight, const OperatorSpec& spec, std::int64_t tokens, HostLines x, const void* bias,
                 HostLines residual, void* y) {
  std::vector<float> columns;  // [K][tokens of the tile], so that the loop over tokens has unit stride
  for (std::int64_t first = 0; first < tokens; first += kTokensOfATile) {
    const std::int64_t count = std::min(kTokensOfATile, tokens - first);
    columns.resize(static_cast<std::size_t>(weight.cols * count));
    for (std::int64_t n = 0; n < count; ++n)
      for (std::int64_t k = 0; k < weight.cols; ++k)
        columns[k * count + n] = read(x.data, (first + n) * x.ld + k, spec.type);
    const auto add_row = [&](std::int64_t m, float(&sums)[kTokensOfATile]) {
      for (std::int64_t i = weight.row_offsets[m]; i < weight.row_offsets[m + 1]; ++i) {
        const float value = weight.values[i];
        const float* const column = &columns[weight.column_indices[i] * count];
        for (std::int64_t n = 0; n < count; ++n) sums[n] += value * column[n];
      }
      if (bias == nullptr) return;
      const float shift = read(bias, m, spec.type);
      for (std::int64_t n = 0; n < count; ++n) sums[n] += shift;
    };
    const std::int64_t rows = spec.output_rows();
    const auto row_of = [&](std::int64_t m) {
      float sums[kTokensOfATile] = {};
      float factors[kTokensOfATile] = {};
      add_row(m, sums);
      if (spec.epilogue.gated) add_row(rows + m, factors);
      for (std::int64_t n = 0; n < count; ++n) {
        float sum = activated(spec.epilogue.activation, sums[n]);
        if (spec.epilogue.gated) sum *= factors[n];
        if (residual.data != nullptr) sum += read(residual.data, (first + n) * residual.ld + m, spec.type);
        write(y, (first + n) * rows + m, spec.type, sum);
      }
    };
    const std::int64_t items = (weight.nnz() / std::max<std::int64_t>(weight.rows, 1) + 1) * count;
    parallel_each(rows, row_of, grain_of_rows(items));
  }
}

void host_sampled(const SparsityPattern& pattern, DataType type, std::int64_t tokens, HostLines x, HostLines dy,
                  void* values) {
  const auto row_of = [&](std::int64_t m) {
    std::vector<float> line(static_cast<std::size_t>(tokens));
    for (std::int64_t n = 0; n < tokens; ++n) line[n] = read(dy.data, n * dy.ld + m, type);
    for (std::int64_t i = pattern.row_offsets[m]; i < pattern.row_offsets[m + 1]; ++i) {
      double sum = 0;
      for (std::int64_t n = 0; n < tokens; ++n)
        sum += static_cast<double>(line[n]) * read(x.data, n * x.ld + pattern.column_indices[i], type);
      write(values, i, type, static_cast<float>(sum));
    }
  };
  parallel_each(pattern.rows, row_of,
                grain_of_rows((pattern.nnz() / std::max<std::int64_t>(pattern.rows, 1) + 1) * tokens));
}

std::vector<float> rounded_values(const void* values, std::int64_t count, DataType source, DataType type) {
  std::vector<float> made(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) made[i] = rounded(read(values, i, source), type);
  return made;
}

void write_dense(const CsrMatrix& weight, DataType type, void* dense) {
  std::memset(dense, 0, static_cast<std::size_t>(weight.rows * weight.cols) * size_of(type));
  for (std::int64_t m = 0; m < weight.rows; ++m)
    for (std::int64_t i = weight.row_offsets[m]; i < weight.row_offsets[m + 1]; ++i)
      write(dense, m * weight.cols + weight.column_indices[i], type, weight.values[i]);
}

}  // namespace sparsmith::torch
