// The sizes of a launch plan's steps for one run, evaluated and held to what every GPU and the workspace allow. Loading
// a tuned file and launching a plan both ask here, so that what loads is held to the same at each run. Internal.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"

namespace sparsmith {

// What no GPU goes beyond.
inline constexpr std::int64_t kMaxThreadsPerBlock = 1024;
inline constexpr std::int64_t kMaxSharedBytes = 256 * 1024;  // of a block; 227 KB on today's largest
inline constexpr std::int64_t kMaxClusterBlocks = 16;

// Rows without gaps.
IntegerVariables variables_without_gaps(const OperatorSpec& spec, std::int64_t tokens);

// Bytes of workspace. Error: kInvalidArgument when it is negative or beyond any memory.
Result<std::int64_t> evaluate_workspace(const IntegerExpression& bytes, const IntegerVariables& variables);

// Where the matmul step puts W X, which the workspace holds from there on. Error: kInvalidArgument when it does not.
Result<std::int64_t> evaluate_product(const PlanStep& step, const OperatorSpec& spec, const IntegerVariables& variables,
                                      std::int64_t workspace_bytes);

struct LaunchSizes {
  using Sizes = std::array<std::int64_t, 3>;
  Sizes grid{};
  Sizes block{};
  Sizes cluster{};
  std::int64_t shared_bytes = 0;
  bool nothing_to_do() const { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
};
// Of a step that launches. Error: kInvalidArgument when a size is beyond the limits.
Status evaluate_launch(const PlanStep& step, const IntegerVariables& variables, std::int64_t max_threads,
                       std::int64_t max_shared_bytes, LaunchSizes& sizes);

struct ZeroedBytes {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
// Of a step that zeroes. Error: kInvalidArgument when a byte lies outside of the workspace.
Result<ZeroedBytes> evaluate_zero(const PlanStep& step, const IntegerVariables& variables,
                                  std::int64_t workspace_bytes);

// Of an argument of kind int32, int64 or workspace. Error: kInvalidArgument when the number does not fit its kind, or
// lies outside of the workspace.
Result<std::int64_t> evaluate_number(PlanArgument::Kind kind, const IntegerExpression& value,
                                     const IntegerVariables& variables, std::int64_t workspace_bytes);

}  // namespace sparsmith
