#include "tuner/reference_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/parallel_for.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 256;

// [K][columns of the outputs] from X as it lies. Tokens are taken some at a time, so that what is read and what is
// written stays in the cache for as long.
template <class Word>
std::vector<std::byte> turned(const ReferenceProblem& problem) {
  constexpr std::int64_t kTokens = 64;
  constexpr std::int64_t kColumns = 64;
  const std::int64_t cols = problem.spec().cols;
  const std::int64_t tokens = problem.output_columns();
  const std::int64_t stride = problem.operand("x").stride;
  const bool token_major = problem.spec().layout == Layout::kTokenMajor;
  const std::byte* const x = problem.x().bytes().data();
  std::vector<std::byte> result(static_cast<std::size_t>(cols * tokens) * sizeof(Word));
  parallel_for(cols, kColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = 0; first < tokens; first += kTokens) {
      for (std::int64_t column = begin; column < end; ++column) {
        for (std::int64_t i = first; i < std::min(first + kTokens, tokens); ++i) {
          const std::int64_t token = problem.token_of(i);
          const std::int64_t at = token_major ? token * stride + column : column * stride + token;
          std::memcpy(result.data() + (column * tokens + i) * sizeof(Word), x + at * sizeof(Word), sizeof(Word));
        }
      }
    }
  });
  return result;
}

// X in which a column's tokens lie side by side, as neighbouring threads read them, and from one column to the next.
struct FeatureMajorX {
  DeviceAllocation elements;
  std::int64_t stride = 0;
};

Result<FeatureMajorX> upload_x(Executor& executor, const ReferenceProblem& problem) {
  FeatureMajorX x;
  if (problem.spec().layout == Layout::kFeatureMajor && problem.looks_at_all()) {
    x.stride = problem.operand("x").stride;
    SPARSMITH_ASSIGN_OR_RETURN(x.elements, DeviceAllocation::holding(executor, problem.x().bytes()));
    return x;
  }
  const auto turn = size_of(problem.spec().type) == 4 ? turned<std::uint32_t> : turned<std::uint16_t>;
  x.stride = problem.output_columns();
  SPARSMITH_ASSIGN_OR_RETURN(x.elements, DeviceAllocation::holding(executor, turn(problem)));
  return x;
}

// The kernel with its arguments for `rows` times `tokens` sums.
KernelText text_of(DataType type, std::int64_t rows, std::int64_t tokens, std::int64_t column_stride) {
  KernelText text;
  text.name = fmt::format("sparsmith_reference_spmm_{}", short_name(type));
  text.summary = "sums of products and of their magnitudes in fp64: the reference of every check";
  text.threads = kThreads;
  text.headers = {"snippets/kernels/reference_spmm.cuh"};
  text.lines = {{fmt::format("using Value = {}", device_type(type)), "of X"},
                {"using Kernel = ReferenceSpmm<Value>", "one thread an output"}};
  text.parameters = {{"const i64*", "row_offsets", packed_array("row_offsets")},
                     {"const u32*", "columns", packed_array("columns")},
                     {"const float*", "values", packed_array("values")},
                     {"const Value*", "x", packed_array("x")},
                     {"double*", "sums", packed_array("sums")},
                     {"double*", "magnitudes", packed_array("magnitudes")},
                     {"i64", "rows", integer(rows)},
                     {"i64", "tokens", integer(tokens)},
                     {"i64", "column_stride", integer(column_stride)}};
  text.body = "Kernel::run(row_offsets, columns, values, x, sums, magnitudes, rows, tokens, column_stride, kThreads);";
  return text;
}

}  // namespace

Result<KernelSource> reference_kernel(DataType type) { return assemble(text_of(type, 0, 0, 0)); }

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
  result.sums.resize(problem.output_rows() * problem.output_columns());
  result.magnitudes.resize(result.sums.size());
  if (result.sums.empty()) return result;

  SPARSMITH_ASSIGN_OR_RETURN(const FeatureMajorX x, upload_x(executor, problem));
  const std::size_t bytes = result.sums.size() * sizeof(double);
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation sums, DeviceAllocation::make(executor, bytes));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation magnitudes, DeviceAllocation::make(executor, bytes));

  LaunchBindings bindings;
  bindings.packed = weight.bindings();
  bindings.packed.push_back({"sums", sums.address()});
  bindings.packed.push_back({"magnitudes", magnitudes.address()});
  bindings.packed.push_back({"x", x.elements.address()});
  LaunchPlan plan;
  plan.steps = {launch_of(text_of(problem.spec().type, problem.output_rows(), problem.output_columns(), x.stride))};
  plan.steps[0].grid[0] = (static_cast<std::int64_t>(result.sums.size()) + kThreads - 1) / kThreads;
  SPARSMITH_RETURN_IF_ERROR(executor.run(plan, bindings));
  SPARSMITH_RETURN_IF_ERROR(executor.read(std::as_writable_bytes(std::span(result.sums)), sums.address()));
  SPARSMITH_RETURN_IF_ERROR(executor.read(std::as_writable_bytes(std::span(result.magnitudes)), magnitudes.address()));
  return result;
}

}  // namespace sparsmith
