#include "generator/families/unpack_parts.h"

#include <fmt/format.h>

#include "generator/device_speed.h"
#include "generator/families/dense/dense_family.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kLeastTokens = 256;
constexpr double kLaunchUs = 3.0;
constexpr double kReachedBandwidth = 0.8;  // of HBM

std::int64_t dense_bytes(const OperatorSpec& spec) {
  return spec.weight_rows() * spec.weight_cols() * static_cast<std::int64_t>(size_of(spec.type));
}

// Behind what the product leaves in the workspace.
std::string weight_offset(const OperatorSpec& spec) {
  return fmt::format("ceil_div({}, 256) * 256", dense_product_bytes(spec));
}

}  // namespace

std::vector<Rule> worthwhile_unpack_rules(const char* first) {
  return {{{first}, "tokens enough that unpacking is not most of the time", [](auto& in) {
             return in.problem.tokens >= kLeastTokens;
           }}};
}

void add_dense_rows(const OperatorSpec& spec, KernelText& text) {
  text.parameters.push_back({"u16*", "values", workspace(weight_offset(spec))});
  text.parameters.push_back({"int", "rows", integer(spec.weight_rows())});
  text.parameters.push_back({"int", "cols", integer(spec.weight_cols())});
  text.body += "const DenseRows dense{values, rows, cols};\n";
}

PlannedKernels unpacked_product(const Config& config, const Problem& problem, KernelText text,
                                const std::array<IntegerExpression, 3>& grid, const IntegerExpression& shared_bytes) {
  const std::string offset = weight_offset(problem.spec);
  PlannedKernels kernels;
  PlanStep& step = kernels.launch(std::move(text));
  step.grid = grid;
  step.shared_bytes = shared_bytes;
  add_dense_product(config, problem, matmul_by_workspace(IntegerExpression::of(offset)), kernels);
  kernels.plan.workspace_bytes = formula("{} + {}", offset, dense_bytes(problem.spec));
  return kernels;
}

double predicted_unpacked_us(const Problem& problem, double packed_bytes) {
  const double bytes = packed_bytes + static_cast<double>(dense_bytes(problem.spec));
  return predicted_dense_operator_us(problem) + kLaunchUs + launch_delay_us(problem.device) +
         bytes / (kReachedBandwidth * DeviceRates(problem.device).hbm);
}

}  // namespace sparsmith
