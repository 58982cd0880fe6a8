// Evaluates the sizes of a launch plan's steps for one run, and checks them against the limits of GPUs and of the
// workspace. Loading a tuned file and launching a plan both use these checks. Internal.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"

namespace sparsmith {

// Limits of all GPUs.
inline constexpr std::int64_t kMaxThreadsPerBlock = 1024;
inline constexpr std::int64_t kMaxSharedBytes = 256 * 1024;  // per block; the largest GPUs have 227 KB
inline constexpr std::int64_t kMaxClusterBlocks = 16;

// The variables of a run whose operands have no gaps between rows.
IntegerVariables variables_without_gaps(const OperatorSpec& spec, std::int64_t tokens);

// Bytes of workspace. Error: kInvalidArgument for a negative size, or one larger than any memory.
Result<std::int64_t> evaluate_workspace(const IntegerExpression& bytes, const IntegerVariables& variables);

// The offset in the workspace of the matmul step's product, W X or dY X^T. REQUIRES: step.product. Error:
// kInvalidArgument when the product does not fit behind it.
Result<std::int64_t> evaluate_product(const PlanStep& step, const OperatorSpec& spec, const IntegerVariables& variables,
                                      std::int64_t workspace_bytes);

// The offset in the workspace of the weight that the matmul step multiplies by. REQUIRES: step.weight. Error:
// kInvalidArgument when the weight does not fit behind it.
Result<std::int64_t> evaluate_weight(const PlanStep& step, const OperatorSpec& spec, const IntegerVariables& variables,
                                     std::int64_t workspace_bytes);

struct LaunchSizes {
  using Sizes = std::array<std::int64_t, 3>;
  Sizes grid{};
  Sizes block{};
  Sizes cluster{};
  std::int64_t shared_bytes = 0;
  bool nothing_to_do() const { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
};
// For a kLaunch step. Error: kInvalidArgument when a size exceeds its limit.
Status evaluate_launch(const PlanStep& step, const IntegerVariables& variables, std::int64_t max_threads,
                       std::int64_t max_shared_bytes, LaunchSizes& sizes);

struct ZeroedBytes {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
// For a kZero step. Error: kInvalidArgument when a byte lies outside of the workspace.
Result<ZeroedBytes> evaluate_zero(const PlanStep& step, const IntegerVariables& variables,
                                  std::int64_t workspace_bytes);

// For an argument of kind int32, int64 or workspace. Error: kInvalidArgument when the number does not fit its kind or
// lies outside of the workspace.
Result<std::int64_t> evaluate_number(PlanArgument::Kind kind, const IntegerExpression& value,
                                     const IntegerVariables& variables, std::int64_t workspace_bytes);

}  // namespace sparsmith
