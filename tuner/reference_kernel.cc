#include "tuner/reference_kernel.h"

#include <fmt/format.h>

#include "generator/kernel_text.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 256;

std::string kernel_name(DataType type) { return fmt::format("sparsmith_reference_spmm_{}", short_name(type)); }

std::string_view device_type(DataType type) {
  switch (type) {
    case DataType::kFloat16: return "half";
    case DataType::kBFloat16: return "bfloat16";
    default: return "float";
  }
}

PlanArgument packed(const char* name) { return {PlanArgument::Kind::kPacked, name, 0}; }
PlanArgument int64(std::int64_t value) { return {PlanArgument::Kind::kInt64, "", value}; }

LaunchPlan plan_for(const ReferenceProblem& problem) {
  const std::int64_t outputs = problem.spec().rows * problem.tokens();
  const bool token_major = problem.spec().layout == Layout::kTokenMajor;
  const std::int64_t leading = problem.variables().ldx;
  PlanStep step;
  step.kernel = kernel_name(problem.spec().type);
  step.grid[0] = (outputs + kThreads - 1) / kThreads;
  step.block[0] = kThreads;
  step.arguments = {packed("row_offsets"),           packed("columns"),       packed("values"),
                    {PlanArgument::Kind::kX, "", 0}, packed("sums"),          packed("magnitudes"),
                    int64(problem.spec().rows),      int64(problem.tokens()), int64(token_major ? 1 : leading),
                    int64(token_major ? leading : 1)};
  return {.steps = {step}, .workspace_bytes = 0};
}

}  // namespace

Result<KernelSource> reference_kernel(DataType type) {
  KernelText text;
  text.name = kernel_name(type);
  text.summary = "sums of products and of their magnitudes in fp64: the reference of every check";
  text.threads = kThreads;
  text.headers = {"snippets/kernels/reference_spmm.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(type)), "of X"},
                {"using Kernel = ReferenceSpmm<Value>", "one thread an output"}};
  text.parameters = {{"const i64*", "row_offsets"},
                     {"const u32*", "columns"},
                     {"const float*", "values"},
                     {"const Value*", "x"},
                     {"double*", "sums"},
                     {"double*", "magnitudes"},
                     {"i64", "rows"},
                     {"i64", "tokens"},
                     {"i64", "column_stride"},
                     {"i64", "token_stride"}};
  text.body =
      "Kernel::run(row_offsets, columns, values, x, sums, magnitudes, rows, tokens, column_stride, token_stride, "
      "kThreads);";
  return assemble(text);
}

Result<ReferenceWeight> ReferenceWeight::upload(Executor& executor, const CsrMatrix& matrix,
                                                std::span<const float> values) {
  ReferenceWeight weight;
  const auto holding = [&executor](auto array) { return DeviceAllocation::holding(executor, std::as_bytes(array)); };
  SPARSMITH_ASSIGN_OR_RETURN(weight.row_offsets_, holding(std::span(matrix.row_offsets)));
  SPARSMITH_ASSIGN_OR_RETURN(weight.columns_, holding(std::span(matrix.column_indices)));
  SPARSMITH_ASSIGN_OR_RETURN(weight.values_, holding(values));
  return weight;
}

std::vector<LaunchBindings::Packed> ReferenceWeight::bindings() const {
  return {{"row_offsets", row_offsets_.address()}, {"columns", columns_.address()}, {"values", values_.address()}};
}

Result<ReferenceSums> compute_sums_on(Executor& executor, const ReferenceProblem& problem,
                                      const ReferenceWeight& weight) {
  ReferenceSums result;
  result.sums.resize(problem.spec().rows * problem.tokens());
  result.magnitudes.resize(result.sums.size());
  if (result.sums.empty()) return result;

  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation x, DeviceAllocation::holding(executor, problem.x().bytes()));
  const std::size_t bytes = result.sums.size() * sizeof(double);
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation sums, DeviceAllocation::make(executor, bytes));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation magnitudes, DeviceAllocation::make(executor, bytes));

  LaunchBindings bindings;
  bindings.packed = weight.bindings();
  bindings.packed.push_back({"sums", sums.address()});
  bindings.packed.push_back({"magnitudes", magnitudes.address()});
  bindings.x = x.address();
  bindings.variables = problem.variables();
  SPARSMITH_RETURN_IF_ERROR(executor.run(plan_for(problem), bindings));
  SPARSMITH_RETURN_IF_ERROR(executor.read(std::as_writable_bytes(std::span(result.sums)), sums.address()));
  SPARSMITH_RETURN_IF_ERROR(executor.read(std::as_writable_bytes(std::span(result.magnitudes)), magnitudes.address()));
  return result;
}

}  // namespace sparsmith
