#include "emulator/emulated_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "runtime/dense_matmul.h"

namespace sparsmith {
namespace {

float element(const std::byte* at, DataType type) {
  if (type == DataType::kFloat32) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return type == DataType::kFloat16 ? float_from_fp16(bits) : float_from_bf16(bits);
}

void set_element(std::byte* at, DataType type, float value) {
  if (type == DataType::kFloat32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
  std::memcpy(at, &bits, sizeof(bits));
}

// `lines` of `length` elements on the device, and here as floats without gaps.
struct Lines {
  DeviceAddress address = 0;
  DataType type = DataType::kFloat32;
  std::int64_t lines = 0;
  std::int64_t length = 0;
  std::int64_t stride = 0;

  DeviceAddress line(std::int64_t i) const { return address + static_cast<std::uint64_t>(i * stride) * size_of(type); }
  Result<std::vector<float>> read(const DeviceMemory& memory) const { return read(memory, 0, lines); }
  Result<std::vector<float>> read(const DeviceMemory& memory, std::int64_t first, std::int64_t count) const {
    std::vector<float> values(static_cast<std::size_t>(count * length));
    std::vector<std::byte> bytes(static_cast<std::size_t>(length) * size_of(type));
    for (std::int64_t i = 0; i < count; ++i) {
      SPARSMITH_RETURN_IF_ERROR(memory.read(bytes, line(first + i)));
      for (std::int64_t j = 0; j < length; ++j)
        values[i * length + j] = element(bytes.data() + static_cast<std::size_t>(j) * size_of(type), type);
    }
    return values;
  }
  Status write(const std::vector<double>& values, DeviceMemory& memory) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(length) * size_of(type));
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t j = 0; j < length; ++j)
        set_element(bytes.data() + static_cast<std::size_t>(j) * size_of(type), type,
                    static_cast<float>(values[i * length + j]));
      SPARSMITH_RETURN_IF_ERROR(memory.write(line(i), bytes));
    }
    return {};
  }
};

Lines lines_of(const OperatorSpec& spec, std::string_view name, const LaunchBindings& bindings) {
  const std::vector<Operand> operands = spec.operands();
  const Operand& operand = *std::ranges::find(operands, name, &Operand::name);
  const std::int64_t n = bindings.variables.n;
  return {bindings.operands.value_or(name, 0), operand.type, operand.lines.of(n), operand.length.of(n),
          bindings.variables.strides.value_or(name, 0)};
}

// W X, or W^T X, in Y's layout without gaps. Rows of W are read one at a time: W is what is large.
Result<std::vector<double>> product_of(const OperatorSpec& spec, std::int64_t n, const Lines& weight,
                                       const std::vector<float>& x, const DeviceMemory& memory) {
  const bool token_major = spec.layout == Layout::kTokenMajor;
  const bool straight = spec.kind == OperatorKind::kSpmm;
  std::vector<double> y(static_cast<std::size_t>(spec.rows * n));
  const auto x_at = [&](std::int64_t k, std::int64_t token) {
    return static_cast<double>(x[token_major ? token * spec.cols + k : k * n + token]);
  };
  const auto y_at = [&](std::int64_t m, std::int64_t token) -> double& {
    return y[token_major ? token * spec.rows + m : m * n + token];
  };
  for (std::int64_t row = 0; row < weight.lines; ++row) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::vector<float> w, weight.read(memory, row, 1));
    for (std::int64_t token = 0; token < n; ++token) {
      for (std::int64_t col = 0; col < weight.length; ++col) {
        const std::int64_t m = straight ? row : col;
        const std::int64_t k = straight ? col : row;
        y_at(m, token) += static_cast<double>(w[col]) * x_at(k, token);
      }
    }
  }
  return y;
}

// The epilogues that the library has.
Status apply_epilogue(const OperatorSpec& spec, const LaunchBindings& bindings, const DeviceMemory& memory,
                      std::vector<double>& y) {
  const bool token_major = spec.layout == Layout::kTokenMajor;
  const std::int64_t n = bindings.variables.n;
  const double alpha = bindings.scalars.value_or("alpha", 1);
  const double beta = bindings.scalars.value_or("beta", 0);
  std::vector<float> bias;
  std::vector<float> old_y;
  std::vector<float> residual;
  if (spec.epilogue.bias) {
    SPARSMITH_ASSIGN_OR_RETURN(bias, lines_of(spec, "bias", bindings).read(memory));
  }
  if (spec.epilogue.beta && beta != 0) {
    SPARSMITH_ASSIGN_OR_RETURN(old_y, lines_of(spec, "y", bindings).read(memory));
  }
  if (spec.epilogue.residual) {
    SPARSMITH_ASSIGN_OR_RETURN(residual, lines_of(spec, "residual", bindings).read(memory));
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) % spec.rows;
    y[i] *= alpha;
    if (!bias.empty()) y[i] += bias[token_major ? row : static_cast<std::int64_t>(i) / n];
    if (spec.epilogue.activation == Activation::kRelu && y[i] <= 0) y[i] = 0;
    if (!old_y.empty()) y[i] += beta * old_y[i];
    if (!residual.empty()) y[i] += residual[i];
  }
  return {};
}

// alpha * dY X^T, [M][K] row-major at `to`. A row at a time: the gradient is what is large.
Status write_gradient(const OperatorSpec& spec, const LaunchBindings& bindings, DeviceAddress to,
                      DeviceMemory& memory) {
  const bool token_major = spec.layout == Layout::kTokenMajor;
  const std::int64_t n = bindings.variables.n;
  const double alpha = bindings.scalars.value_or("alpha", 1);
  const DataType type = spec.gradient_type();
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<float> x, lines_of(spec, "x", bindings).read(memory));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<float> dy, lines_of(spec, "dy", bindings).read(memory));
  const auto at = [&](const std::vector<float>& of, std::int64_t features, std::int64_t feature, std::int64_t token) {
    return static_cast<double>(of[token_major ? token * features + feature : feature * n + token]);
  };
  for (std::int64_t row = 0; row < spec.rows; ++row) {
    std::vector<double> sums(static_cast<std::size_t>(spec.cols));
    for (std::int64_t token = 0; token < n; ++token) {
      const double factor = alpha * at(dy, spec.rows, row, token);
      for (std::int64_t col = 0; col < spec.cols; ++col) sums[col] += factor * at(x, spec.cols, col, token);
    }
    const DeviceAddress line = to + static_cast<std::uint64_t>(row * spec.cols) * size_of(type);
    const Lines written{line, type, 1, spec.cols, spec.cols};
    SPARSMITH_RETURN_IF_ERROR(written.write(sums, memory));
  }
  return {};
}

}  // namespace

Status emulated_matmul(const PlanStep& step, const LaunchBindings& bindings, DeviceMemory& memory) {
  if (bindings.spec == nullptr) return invalid_argument("a matmul step without an operator");
  const OperatorSpec& spec = *bindings.spec;
  const std::int64_t n = bindings.variables.n;
  if (step.makes_gradient()) {
    if (spec.multiplies_weight() || !step.product) return invalid_argument("a product without a weight");
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset, step.product->evaluate(bindings.variables));
    return write_gradient(spec, bindings, bindings.workspace + static_cast<std::uint64_t>(offset), memory);
  }
  DeviceAddress address = 0;
  if (step.weight) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset, step.weight->evaluate(bindings.variables));
    address = bindings.workspace + static_cast<std::uint64_t>(offset);
  } else {
    const auto array = std::ranges::find(bindings.packed, step.array, &LaunchBindings::Packed::name);
    if (array == bindings.packed.end()) return not_found(fmt::format("there is no packed array {}", step.array));
    address = array->address;
  }
  if (!step.product && !DenseMatmul::covers(spec)) return unsupported("no library has the epilogue of this product");
  const Lines weight{address, spec.type, spec.weight_rows(), spec.weight_cols(), spec.weight_cols()};
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<float> x, lines_of(spec, "x", bindings).read(memory));
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<double> y, product_of(spec, n, weight, x, memory));
  Lines to = lines_of(spec, "y", bindings);
  if (step.product) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t offset, step.product->evaluate(bindings.variables));
    const bool token_major = spec.layout == Layout::kTokenMajor;
    const std::int64_t length = token_major ? spec.rows : n;
    to = {bindings.workspace + static_cast<std::uint64_t>(offset), DataType::kFloat32, token_major ? n : spec.rows,
          length, length};
  } else {
    SPARSMITH_RETURN_IF_ERROR(apply_epilogue(spec, bindings, memory, y));
  }
  return to.write(y, memory);
}

}  // namespace sparsmith
