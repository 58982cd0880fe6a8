#include "tuner/output_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "generator/kernel_parts.h"
#include "tuner/error_bound.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSharedBytes = kThreads * sizeof(OutputFindings);
constexpr std::int64_t kMostBlocks = 1024;
constexpr std::int64_t kOutputsOfABlock = 8 * kThreads;  // at least, where there are several

static_assert(sizeof(OutputFindings) == 48, "as the kernel writes them");

// Outputs that are compared, of `all_columns` in memory.
struct OutputShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t all_columns = 0;
};

// The kernel with its arguments.
KernelText text_of(DataType type, Layout layout, const OutputShape& shape) {
  const bool token_major = layout == Layout::kTokenMajor;
  KernelText text;
  text.name = fmt::format("sparsmith_compare_outputs_{}", short_name(type));
  text.summary = "outputs against the expected ones";
  text.threads = kThreads;
  text.max_shared_bytes = kSharedBytes;
  text.headers = {"snippets/kernels/compare_outputs.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(type)), "of Y"},
                {fmt::format("constexpr double kLargest = {:a}", largest_finite(type)), "finite number of that type"},
                {"using Kernel = CompareOutputs<Value, kThreads>", ""}};
  text.parameters = {{"const Value*", "y", packed_array("y")},
                     {"const double*", "values", packed_array("values")},
                     {"const float*", "bounds", packed_array("bounds")},
                     {"const u8*", "effects", packed_array("effects")},
                     {"const int*", "looked_at", packed_array("looked_at")},
                     {"i64", "rows", integer(shape.rows)},
                     {"i64", "columns", integer(shape.columns)},
                     {"i64", "row_stride", integer(token_major ? 1 : shape.all_columns)},
                     {"i64", "token_stride", integer(token_major ? shape.rows : 1)},
                     {"Kernel::Findings*", "findings", packed_array("findings")}};
  text.body =
      "Kernel::run(y, values, bounds, effects, looked_at, rows, columns, row_stride, token_stride, kLargest, findings, "
      "shared_memory());";
  return text;
}

}  // namespace

Result<KernelSource> output_comparison_kernel(DataType type) {
  return assemble(text_of(type, Layout::kTokenMajor, {}));
}

Result<OutputComparison> OutputComparison::create(Executor& executor, const ReferenceProblem& problem) {
  OutputComparison made(executor, problem);
  const auto holding = [&executor](auto array) { return DeviceAllocation::holding(executor, std::as_bytes(array)); };
  SPARSMITH_ASSIGN_OR_RETURN(made.values_, holding(problem.expected_values()));
  SPARSMITH_ASSIGN_OR_RETURN(made.bounds_, holding(problem.bounds()));
  if (!problem.looks_at_all()) {
    SPARSMITH_ASSIGN_OR_RETURN(made.looked_at_, holding(problem.looked_at()));
  }
  SPARSMITH_ASSIGN_OR_RETURN(made.findings_, DeviceAllocation::make(executor, kMostBlocks * sizeof(OutputFindings)));
  return made;
}

Result<Verification> OutputComparison::verify(DeviceAddress y, Layout layout, const PoisonedInput* poisoned,
                                              DeviceAddress effects) const {
  const auto outputs = static_cast<std::int64_t>(problem_->bounds().size());
  const std::int64_t blocks = std::clamp<std::int64_t>(outputs / kOutputsOfABlock, 1, kMostBlocks);
  LaunchBindings bindings;
  bindings.packed = {{"y", y},
                     {"values", values_.address()},
                     {"bounds", bounds_.address()},
                     {"effects", effects},
                     {"looked_at", looked_at_.address()},
                     {"findings", findings_.address()}};
  LaunchPlan plan;
  const OutputShape shape{problem_->output_rows(), problem_->output_columns(), problem_->all_columns()};
  plan.steps = {launch_of(text_of(problem_->spec().type, layout, shape))};
  plan.steps[0].grid[0] = blocks;
  SPARSMITH_RETURN_IF_ERROR(executor_->run(plan, bindings));
  std::vector<OutputFindings> of_blocks(blocks);
  SPARSMITH_RETURN_IF_ERROR(executor_->read(std::as_writable_bytes(std::span(of_blocks)), findings_.address()));
  OutputFindings all;
  for (const OutputFindings& one : of_blocks) all.add(one);

  ElementBuffer first_wrong(problem_->spec().type, 1);
  if (all.wrong > 0) {
    const std::int64_t row = all.first_wrong / shape.columns;
    const std::int64_t token = problem_->token_of(all.first_wrong % shape.columns);
    const std::int64_t at = layout == Layout::kTokenMajor ? token * shape.rows + row : row * shape.all_columns + token;
    SPARSMITH_RETURN_IF_ERROR(executor_->read(first_wrong.bytes(), y + at * first_wrong.bytes().size()));
  }
  return verification_of(*problem_, all, first_wrong.get(0), poisoned);
}

}  // namespace sparsmith
