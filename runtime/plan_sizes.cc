#include "runtime/plan_sizes.h"

#include <fmt/format.h>

#include <limits>

namespace sparsmith {
namespace {

using Sizes = LaunchSizes::Sizes;

constexpr std::int64_t kMaxGridX = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxGridYz = 65'535;
// A thousand times the largest memory. Rounding up and adding cannot overflow below it.
constexpr std::int64_t kMaxWorkspaceBytes = std::int64_t{1} << 50;

Status evaluate(const std::array<IntegerExpression, 3>& expressions, const IntegerVariables& variables, Sizes& sizes) {
  for (std::size_t i = 0; i < 3; ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(sizes[i], expressions[i].evaluate(variables));
  }
  return {};
}

bool within(const Sizes& sizes, std::int64_t max_x, std::int64_t max_yz) {
  return sizes[0] >= 1 && sizes[0] <= max_x && sizes[1] >= 1 && sizes[1] <= max_yz && sizes[2] >= 1 &&
         sizes[2] <= max_yz;
}

// The offset of a matrix that lies in the workspace without gaps. `what`: for the message.
Result<std::int64_t> evaluate_matrix(std::string_view what, const IntegerExpression& offset, std::int64_t rows,
                                     std::int64_t cols, std::int64_t element_bytes, const IntegerVariables& variables,
                                     std::int64_t workspace_bytes) {
  constexpr std::int64_t kAlignment = 16;  // of what cuBLASLt reads and writes
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t first, offset.evaluate(variables));
  std::int64_t bytes = 0;
  if (first < 0 || first > workspace_bytes || first % kAlignment != 0 ||
      __builtin_mul_overflow(rows * element_bytes, cols, &bytes) || bytes > workspace_bytes - first) {
    return invalid_argument(
        fmt::format("a {} of {} x {}, {} bytes each, does not fit a workspace of {} bytes from byte "
                    "{} on",
                    what, rows, cols, element_bytes, workspace_bytes, first));
  }
  return first;
}

}  // namespace

IntegerVariables variables_without_gaps(const OperatorSpec& spec, std::int64_t tokens) {
  IntegerVariables variables{.n = tokens};
  for (const Operand& operand : spec.operands()) {
    if (operand.has_stride) variables.strides.set(operand.name, operand.length.of(tokens));
  }
  return variables;
}

Result<std::int64_t> evaluate_workspace(const IntegerExpression& bytes, const IntegerVariables& variables) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t value, bytes.evaluate(variables));
  if (value < 0 || value > kMaxWorkspaceBytes) {
    return invalid_argument(fmt::format("a workspace of {} = {} bytes", bytes.text(), value));
  }
  return value;
}

Result<std::int64_t> evaluate_product(const PlanStep& step, const OperatorSpec& spec, const IntegerVariables& variables,
                                      std::int64_t workspace_bytes) {
  if (!spec.multiplies_weight())
    return evaluate_matrix("gradient", *step.product, spec.rows, spec.cols,
                           static_cast<std::int64_t>(size_of(spec.gradient_type())), variables, workspace_bytes);
  return evaluate_matrix("product", *step.product, spec.rows, variables.n, sizeof(float), variables, workspace_bytes);
}

Result<std::int64_t> evaluate_weight(const PlanStep& step, const OperatorSpec& spec, const IntegerVariables& variables,
                                     std::int64_t workspace_bytes) {
  return evaluate_matrix("weight", *step.weight, spec.weight_rows(), spec.weight_cols(),
                         static_cast<std::int64_t>(size_of(spec.type)), variables, workspace_bytes);
}

Status evaluate_launch(const PlanStep& step, const IntegerVariables& variables, std::int64_t max_threads,
                       std::int64_t max_shared_bytes, LaunchSizes& sizes) {
  SPARSMITH_RETURN_IF_ERROR(evaluate(step.grid, variables, sizes.grid));
  if (sizes.nothing_to_do()) return {};
  const Sizes& grid = sizes.grid;
  const Sizes& block = sizes.block;
  const Sizes& cluster = sizes.cluster;
  SPARSMITH_RETURN_IF_ERROR(evaluate(step.block, variables, sizes.block));
  SPARSMITH_RETURN_IF_ERROR(evaluate(step.cluster, variables, sizes.cluster));
  SPARSMITH_ASSIGN_OR_RETURN(sizes.shared_bytes, step.shared_bytes.evaluate(variables));
  if (!within(grid, kMaxGridX, kMaxGridYz)) {
    return invalid_argument(fmt::format("a grid of {} x {} x {} blocks", grid[0], grid[1], grid[2]));
  }
  if (!within(block, max_threads, max_threads) || block[0] * block[1] * block[2] > max_threads) {
    return invalid_argument(fmt::format("a block of {} x {} x {} threads; this kernel takes {}", block[0], block[1],
                                        block[2], max_threads));
  }
  if (!within(cluster, kMaxClusterBlocks, kMaxClusterBlocks) ||
      cluster[0] * cluster[1] * cluster[2] > kMaxClusterBlocks) {
    return invalid_argument(fmt::format("a cluster of {} x {} x {} blocks; {} are the most", cluster[0], cluster[1],
                                        cluster[2], kMaxClusterBlocks));
  }
  if (grid[0] % cluster[0] != 0 || grid[1] % cluster[1] != 0 || grid[2] % cluster[2] != 0) {
    return invalid_argument(fmt::format("a grid of {} x {} x {} blocks in clusters of {} x {} x {}", grid[0], grid[1],
                                        grid[2], cluster[0], cluster[1], cluster[2]));
  }
  if (sizes.shared_bytes < 0 || sizes.shared_bytes > max_shared_bytes) {
    return invalid_argument(
        fmt::format("{} bytes of shared memory; this kernel was loaded for {}", sizes.shared_bytes, max_shared_bytes));
  }
  return {};
}

Result<ZeroedBytes> evaluate_zero(const PlanStep& step, const IntegerVariables& variables,
                                  std::int64_t workspace_bytes) {
  ZeroedBytes zeroed;
  SPARSMITH_ASSIGN_OR_RETURN(zeroed.offset, step.zero_offset.evaluate(variables));
  SPARSMITH_ASSIGN_OR_RETURN(zeroed.bytes, step.zero_bytes.evaluate(variables));
  if (zeroed.offset < 0 || zeroed.bytes < 0 || zeroed.offset > workspace_bytes ||
      zeroed.bytes > workspace_bytes - zeroed.offset) {
    return invalid_argument(fmt::format("a step zeroes {} bytes from byte {} on of a workspace of {} bytes",
                                        zeroed.bytes, zeroed.offset, workspace_bytes));
  }
  return zeroed;
}

Result<std::int64_t> evaluate_number(PlanArgument::Kind kind, const IntegerExpression& value,
                                     const IntegerVariables& variables, std::int64_t workspace_bytes) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t number, value.evaluate(variables));
  if (kind == PlanArgument::Kind::kWorkspace && (number < 0 || number > workspace_bytes)) {
    return invalid_argument(fmt::format("an argument is byte {} of a workspace of {} bytes", number, workspace_bytes));
  }
  if (kind == PlanArgument::Kind::kInt32 && number != static_cast<std::int32_t>(number)) {
    return invalid_argument(fmt::format("argument {} = {} is beyond 32 bits", value.text(), number));
  }
  return number;
}

}  // namespace sparsmith
