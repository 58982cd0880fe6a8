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

// The kernel with its arguments for `rows` times `tokens` outputs.
KernelText text_of(DataType type, Layout layout, std::int64_t rows, std::int64_t tokens) {
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
                     {"i64", "rows", integer(rows)},
                     {"i64", "tokens", integer(tokens)},
                     {"i64", "row_stride", integer(token_major ? 1 : tokens)},
                     {"i64", "token_stride", integer(token_major ? rows : 1)},
                     {"Kernel::Findings*", "findings", packed_array("findings")}};
  text.body =
      "Kernel::run(y, values, bounds, effects, rows, tokens, row_stride, token_stride, kLargest, findings, "
      "shared_memory());";
  return text;
}

}  // namespace

Result<KernelSource> output_comparison_kernel(DataType type) {
  return assemble(text_of(type, Layout::kTokenMajor, 0, 0));
}

Result<OutputComparison> OutputComparison::create(Executor& executor, const ReferenceProblem& problem) {
  OutputComparison made(executor, problem);
  const auto holding = [&executor](auto array) { return DeviceAllocation::holding(executor, std::as_bytes(array)); };
  SPARSMITH_ASSIGN_OR_RETURN(made.values_, holding(problem.expected_values()));
  SPARSMITH_ASSIGN_OR_RETURN(made.bounds_, holding(problem.bounds()));
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
                     {"findings", findings_.address()}};
  LaunchPlan plan;
  plan.steps = {launch_of(text_of(problem_->spec().type, layout, problem_->spec().rows, problem_->tokens()))};
  plan.steps[0].grid[0] = blocks;
  SPARSMITH_RETURN_IF_ERROR(executor_->run(plan, bindings));
  std::vector<OutputFindings> of_blocks(blocks);
  SPARSMITH_RETURN_IF_ERROR(executor_->read(std::as_writable_bytes(std::span(of_blocks)), findings_.address()));
  OutputFindings all;
  for (const OutputFindings& one : of_blocks) all.add(one);

  ElementBuffer first_wrong(problem_->spec().type, 1);
  if (all.wrong > 0) {
    const std::int64_t row = all.first_wrong / problem_->tokens();
    const std::int64_t token = all.first_wrong % problem_->tokens();
    const std::int64_t at =
        layout == Layout::kTokenMajor ? token * problem_->spec().rows + row : row * problem_->tokens() + token;
    SPARSMITH_RETURN_IF_ERROR(executor_->read(first_wrong.bytes(), y + at * first_wrong.bytes().size()));
  }
  return verification_of(*problem_, all, first_wrong.get(0), poisoned);
}

}  // namespace sparsmith
