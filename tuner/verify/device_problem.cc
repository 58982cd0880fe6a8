#include "tuner/verify/device_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "generator/kernel_parts.h"
#include "tuner/verify/error_bound.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSharedBytes = kThreads * sizeof(OutputFindings);
constexpr std::int64_t kMostBlocks = 1024;
constexpr std::int64_t kOutputsOfABlock = 8 * kThreads;  // at least, where there are several

static_assert(sizeof(OutputFindings) == 48, "as the kernel writes them");

// The shape of the compared outputs; memory has `all_columns` columns.
struct OutputShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t all_columns = 0;
};

// The kernel with its arguments.
KernelText text_of(DataType type, Layout layout, const OutputShape& shape, std::int64_t first_poisoned) {
  const bool token_major = layout == Layout::kTokenMajor;
  return {
      .name = output_comparison_kernel_name(type),
      .summary = "outputs against the expected ones",
      .threads = kThreads,
      .max_shared_bytes = kSharedBytes,
      .architecture = {},
      .headers = {"snippets/kernels/compare_outputs.cuh"},
      .lines = {{fmt::format("using Value = {}", device_type(type)), "of Y"},
                {fmt::format("constexpr double kLargest = {:a}", largest_finite(type)), "finite number of that type"},
                {"using Kernel = CompareOutputs<Value, kThreads>", ""}},
      .parameters = {{"const Value*", "y", packed_array("y")},
                     {"const double*", "values", packed_array("values")},
                     {"const float*", "bounds", packed_array("bounds")},
                     {"const u8*", "effects", packed_array("effects")},
                     {"i64", "first_poisoned", integer(first_poisoned)},
                     {"const int*", "looked_at", packed_array("looked_at")},
                     {"i64", "rows", integer(shape.rows)},
                     {"i64", "columns", integer(shape.columns)},
                     {"i64", "row_stride", integer(token_major ? 1 : shape.all_columns)},
                     {"i64", "token_stride", integer(token_major ? shape.rows : 1)},
                     {"Kernel::Findings*", "findings", packed_array("findings")}},
      .body =
          "Kernel::run(y, values, bounds, effects, first_poisoned, looked_at, rows, columns, row_stride, token_stride, "
          "kLargest, findings, shared_memory());"};
}

}  // namespace

std::string output_comparison_kernel_name(DataType type) {
  return fmt::format("sparsmith_compare_outputs_{}", short_name(type));
}

Result<KernelSource> output_comparison_kernel(DataType type) {
  return assemble(text_of(type, Layout::kTokenMajor, {}, 0));
}

Result<std::unique_ptr<DeviceProblem>> DeviceProblem::upload(Executor& executor, const ReferenceProblem& problem,
                                                             const PoisonedInput& poisoned,
                                                             Fingerprinter& fingerprinter) {
  std::unique_ptr<DeviceProblem> made(new DeviceProblem(executor, problem, poisoned, fingerprinter));
  const bool has_old_output = problem.spec().epilogue.beta;
  const std::pair<DeviceAllocation&, std::span<const std::byte>> arrays[] = {
      {made->values_, std::as_bytes(problem.expected_values())},
      {made->bounds_, std::as_bytes(problem.bounds())},
      {made->looked_at_, std::as_bytes(problem.looked_at())},
      {made->x_, problem.x().bytes()},
      {made->poisoned_x_, poisoned.x.bytes()},
      {made->effects_, std::as_bytes(std::span(poisoned.effects))},
      {made->old_output_, has_old_output ? problem.initial_output().bytes() : std::span<const std::byte>()}};
  for (const auto& [array, contents] : arrays) {
    if (contents.empty()) continue;
    SPARSMITH_ASSIGN_OR_RETURN(array, DeviceAllocation::holding(executor, contents));
  }
  SPARSMITH_ASSIGN_OR_RETURN(made->findings_, DeviceAllocation::make(executor, kMostBlocks * sizeof(OutputFindings)));
  SPARSMITH_ASSIGN_OR_RETURN(made->fingerprint_, made->fingerprint());
  return made;
}

Result<std::uint64_t> DeviceProblem::fingerprint() const {
  std::vector<Fingerprinter::Range> ranges;
  for (const DeviceAllocation* array : {&values_, &bounds_, &looked_at_, &x_, &poisoned_x_, &effects_, &old_output_})
    ranges.push_back({array->address(), array->bytes()});
  return fingerprinter_.of(ranges);
}

Result<bool> DeviceProblem::is_intact() const {
  SPARSMITH_ASSIGN_OR_RETURN(const std::uint64_t now, fingerprint());
  return now == fingerprint_;
}

Status DeviceProblem::restore_x(DeviceAddress x, bool poisoned) const {
  const DeviceAllocation& from = poisoned ? poisoned_x_ : x_;
  return executor_.copy(x, from.address(), from.bytes());
}

Status DeviceProblem::restore_output(DeviceAddress output) const {
  return executor_.copy(output, old_output_.address(), old_output_.bytes());
}

Result<Verification> DeviceProblem::verify(DeviceAddress output, Layout layout, bool poisoned) const {
  const auto outputs = static_cast<std::int64_t>(problem_.bounds().size());
  const std::int64_t blocks = std::clamp<std::int64_t>(outputs / kOutputsOfABlock, 1, kMostBlocks);
  LaunchBindings bindings;
  bindings.packed = {{"y", output},
                     {"values", values_.address()},
                     {"bounds", bounds_.address()},
                     {"effects", poisoned ? effects_.address() : 0},
                     {"looked_at", looked_at_.address()},
                     {"findings", findings_.address()}};
  const OutputShape shape{problem_.output_rows(), problem_.output_columns(), problem_.all_columns()};
  LaunchPlan plan{.steps = {launch_of(text_of(problem_.spec().type, layout, shape, poisoned_.first_token))}};
  plan.steps[0].grid[0] = blocks;
  SPARSMITH_RETURN_IF_ERROR(executor_.run(plan, bindings));
  std::vector<OutputFindings> of_blocks(blocks);
  SPARSMITH_RETURN_IF_ERROR(executor_.read(std::as_writable_bytes(std::span(of_blocks)), findings_.address()));
  OutputFindings all;
  for (const OutputFindings& one : of_blocks) all.add(one);

  ElementBuffer first_wrong(problem_.spec().type, 1);
  if (all.wrong > 0) {
    const std::int64_t row = all.first_wrong / shape.columns;
    const std::int64_t token = problem_.token_of(all.first_wrong % shape.columns);
    const std::int64_t at = layout == Layout::kTokenMajor ? token * shape.rows + row : row * shape.all_columns + token;
    SPARSMITH_RETURN_IF_ERROR(executor_.read(first_wrong.bytes(), output + at * first_wrong.bytes().size()));
  }
  return verification_of(problem_, all, first_wrong.get(0), poisoned ? &poisoned_ : nullptr);
}

}  // namespace sparsmith
