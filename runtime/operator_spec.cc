#include "runtime/operator_spec.h"

#include <fmt/format.h>

#include <utility>

#include "base/enum_names.h"
#include "base/split.h"
#include "matrix/csr_matrix.h"

namespace sparsmith {

namespace {

constexpr std::string_view kKindNames[] = {"spmm", "spmm_transposed", "sddmm"};
constexpr std::string_view kLayoutNames[] = {"token_major", "feature_major"};
constexpr std::string_view kAccumulationNames[] = {"fp32", "fp16_chains"};
constexpr std::string_view kActivationNames[] = {"none", "relu", "gelu", "silu", "gelu_tanh"};

}  // namespace

std::string_view operator_kind_name(OperatorKind kind) { return name_in(kKindNames, kind); }
std::string_view layout_name(Layout layout) { return name_in(kLayoutNames, layout); }
std::string_view accumulation_name(Accumulation accumulation) { return name_in(kAccumulationNames, accumulation); }
std::string_view activation_name(Activation activation) { return name_in(kActivationNames, activation); }

std::optional<OperatorKind> operator_kind_of_name(std::string_view name) {
  return value_in<OperatorKind>(kKindNames, name);
}
std::optional<Accumulation> accumulation_of_name(std::string_view name) {
  return value_in<Accumulation>(kAccumulationNames, name);
}

std::string Epilogue::name() const {
  std::string name;
  const auto add = [&name](std::string_view part) {
    if (!name.empty()) name += '+';
    name += part;
  };
  if (bias) add("bias");
  if (activation != Activation::kNone) add(activation_name(activation));
  if (beta) add("beta");
  if (residual) add("residual");
  if (gated) add("gated");
  return name.empty() ? "none" : name;
}

Result<Epilogue> Epilogue::parse(std::string_view text) {
  Epilogue epilogue;
  if (text == "none") return epilogue;
  const auto error = [text](std::string_view part, std::string_view reason) {
    return invalid_argument(fmt::format("epilogue \"{}\": \"{}\" {}", text, part, reason));
  };
  for (const std::string_view part : split(text, "+,")) {
    bool* const flag = part == "bias"       ? &epilogue.bias
                       : part == "beta"     ? &epilogue.beta
                       : part == "residual" ? &epilogue.residual
                       : part == "gated"    ? &epilogue.gated
                                            : nullptr;
    const auto activation = value_in<Activation>(kActivationNames, part);
    if (flag == nullptr && activation.value_or(Activation::kNone) == Activation::kNone)
      return error(part, "is none of bias, relu, gelu, gelu_tanh, silu, beta, residual, gated");
    if (flag != nullptr ? *flag : epilogue.activation == *activation) return error(part, "stands twice");
    if (flag == nullptr && epilogue.activation != Activation::kNone) return error(part, "is a second activation");
    if (flag != nullptr) {
      *flag = true;
    } else {
      epilogue.activation = *activation;
    }
  }
  return epilogue;
}

namespace {

std::string name_without_epilogue(const OperatorSpec& spec) {
  return fmt::format("{}_{}_{}{}_", operator_kind_name(spec.kind), short_name(spec.type),
                     spec.accumulation == Accumulation::kFp16Chains ? "chains_" : "", layout_name(spec.layout));
}

}  // namespace

std::string OperatorSpec::name() const { return name_without_epilogue(*this) + epilogue.name(); }

void OperatorSpec::set_weight(std::int64_t weight_rows, std::int64_t weight_cols, std::int64_t weight_nnz) {
  const bool is_transposed = kind == OperatorKind::kSpmmTransposed;
  rows = is_transposed ? weight_cols : weight_rows;
  cols = is_transposed ? weight_rows : weight_cols;
  nnz = multiplies_weight() ? 0 : weight_nnz;
}

bool OperatorSpec::fits(const CsrMatrix& matrix) const {
  return matrix.rows == rows && matrix.cols == cols && (multiplies_weight() || matrix.nnz() == nnz);
}

std::vector<Operand> OperatorSpec::operands() const {
  const auto activations = [this](std::string_view name, std::int64_t features) {
    Operand operand{.name = name, .type = type, .lines = {.is_tokens = true}, .length = {.fixed = features}};
    if (layout == Layout::kFeatureMajor) std::swap(operand.lines, operand.length);
    return operand;
  };
  const Access output = epilogue.beta ? Access::kInOut : Access::kOut;
  const auto vector = [this](std::string_view name, std::int64_t length) {
    return Operand{.name = name, .type = type, .lines = {.fixed = 1}, .length = {.fixed = length}, .has_stride = false};
  };
  if (!multiplies_weight()) {
    Operand values = vector("values", nnz);
    values.access = output;
    return {activations("x", cols), activations("dy", rows), values};
  }
  Operand y = activations("y", output_rows());
  y.access = output;
  Operand residual = activations("residual", output_rows());
  residual.present = epilogue.residual;
  Operand bias = vector("bias", rows);
  bias.present = epilogue.bias;
  return {activations("x", cols), y, bias, residual};
}

Status OperatorSpec::check() const {
  if (!multiplies_weight()) {
    if (epilogue != Epilogue{.beta = epilogue.beta})
      return invalid_argument(fmt::format("epilogue {}: sddmm has none but beta", epilogue.name()));
    if (accumulation != Accumulation::kFp32) return invalid_argument("sddmm accumulates in fp32");
  }
  if (epilogue.gated) {
    if (kind != OperatorKind::kSpmm || epilogue.beta || epilogue.residual)
      return invalid_argument(
          fmt::format("epilogue {}: gated is for spmm, without beta and residual", epilogue.name()));
    if (rows % 2 != 0)
      return invalid_argument(fmt::format("epilogue {}: {} rows are no two halves", epilogue.name(), rows));
  }
  if (accumulation == Accumulation::kFp32 || type == DataType::kFloat16) return {};
  return invalid_argument(fmt::format("accumulation {} is for fp16 operators, not for {} ones",
                                      accumulation_name(accumulation), short_name(type)));
}

CsrMatrix multiplied(OperatorKind kind, CsrMatrix matrix) {
  if (kind == OperatorKind::kSpmmTransposed) return transposed(matrix);
  return matrix;
}

Result<OperatorSpec> OperatorSpec::parse(std::string_view name) {
  for (const OperatorKind kind : kOperatorKinds) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
      for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
        for (const Accumulation accumulation : {Accumulation::kFp32, Accumulation::kFp16Chains}) {
          OperatorSpec spec{.type = type, .layout = layout, .accumulation = accumulation, .kind = kind};
          const std::string prefix = name_without_epilogue(spec);
          if (!name.starts_with(prefix) || !spec.check().ok()) continue;
          SPARSMITH_ASSIGN_OR_RETURN(spec.epilogue, Epilogue::parse(name.substr(prefix.size())));
          SPARSMITH_RETURN_IF_ERROR(spec.check());  // the epilogue as well
          return spec;
        }
      }
    }
  }
  return invalid_argument(fmt::format("operator \"{}\" is not of the form KIND_TYPE_LAYOUT_EPILOGUE, as in {}", name,
                                      OperatorSpec{.type = DataType::kFloat16}.name()));
}

}  // namespace sparsmith
