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

std::string kernel_name(DataType type) { return fmt::format("sparsmith_compare_outputs_{}", short_name(type)); }

PlanArgument int64(std::int64_t value) { return {PlanArgument::Kind::kInt64, "", value}; }

LaunchPlan plan_for(const ReferenceProblem& problem, Layout layout, std::int64_t blocks) {
  const std::int64_t rows = problem.spec().rows;
  const std::int64_t tokens = problem.tokens();
  const bool token_major = layout == Layout::kTokenMajor;
  PlanStep step;
  step.kernel = kernel_name(problem.spec().type);
  step.grid[0] = blocks;
  step.block[0] = kThreads;
  step.shared_bytes = kSharedBytes;
  step.arguments = {{PlanArgument::Kind::kY, "", 0},
                    PlanArguments::packed("values"),
                    PlanArguments::packed("bounds"),
                    PlanArguments::packed("effects"),
                    int64(rows),
                    int64(tokens),
                    int64(token_major ? 1 : tokens),
                    int64(token_major ? rows : 1),
                    PlanArguments::packed("findings")};
  return {.steps = {step}, .workspace_bytes = 0};
}

}  // namespace

Result<KernelSource> output_comparison_kernel(DataType type) {
  KernelText text;
  text.name = kernel_name(type);
  text.summary = "outputs against the expected ones";
  text.threads = kThreads;
  text.max_shared_bytes = kSharedBytes;
  text.headers = {"snippets/kernels/compare_outputs.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(type)), "of Y"},
                {fmt::format("constexpr double kLargest = {:a}", largest_finite(type)), "finite number of that type"},
                {"using Kernel = CompareOutputs<Value, kThreads>", ""}};
  text.parameters = {{"const Value*", "y"},
                     {"const double*", "values"},
                     {"const float*", "bounds"},
                     {"const u8*", "effects"},
                     {"i64", "rows"},
                     {"i64", "tokens"},
                     {"i64", "row_stride"},
                     {"i64", "token_stride"},
                     {"Kernel::Findings*", "findings"}};
  text.body =
      "Kernel::run(y, values, bounds, effects, rows, tokens, row_stride, token_stride, kLargest, findings, "
      "shared_memory());";
  return assemble(text);
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
  bindings.packed = {{"values", values_.address()},
                     {"bounds", bounds_.address()},
                     {"effects", effects},
                     {"findings", findings_.address()}};
  bindings.y = y;
  SPARSMITH_RETURN_IF_ERROR(executor_->run(plan_for(*problem_, layout, blocks), bindings));
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
