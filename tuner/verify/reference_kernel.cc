#include "tuner/verify/reference_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/parallel_for.h"
#include "generator/kernel_parts.h"

namespace sparsmith {
namespace {

constexpr int kThreads = 256;

// Makes [K][columns of the outputs] from X in its layout. It takes a few tokens at a time, so source and destination
// stay in the cache.
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

// The kernel with its arguments for `rows` times `tokens` sums.
KernelText text_of(DataType type, std::int64_t rows, std::int64_t tokens, std::int64_t column_stride) {
  return {
      .name = reference_kernel_name(type),
      .summary = "sums of products and of their magnitudes in fp64: the reference of every check",
      .threads = kThreads,
      .architecture = {},
      .headers = {"snippets/kernels/reference_spmm.cuh"},
      .lines = {{fmt::format("using Value = {}", device_type(type)), "of X"},
                {"using Kernel = ReferenceSpmm<Value>", "one thread an output"}},
      .parameters = {{"const i64*", "row_offsets", packed_array("row_offsets")},
                     {"const u32*", "columns", packed_array("columns")},
                     {"const float*", "values", packed_array("values")},
                     {"const Value*", "x", packed_array("x")},
                     {"double*", "sums", packed_array("sums")},
                     {"double*", "magnitudes", packed_array("magnitudes")},
                     {"i64", "rows", integer(rows)},
                     {"i64", "tokens", integer(tokens)},
                     {"i64", "column_stride", integer(column_stride)}},
      .body = "Kernel::run(row_offsets, columns, values, x, sums, magnitudes, rows, tokens, column_stride, kThreads);"};
}

}  // namespace

std::string reference_kernel_name(DataType type) {
  return fmt::format("sparsmith_reference_spmm_{}", short_name(type));
}

Result<KernelSource> reference_kernel(DataType type) { return assemble(text_of(type, 0, 0, 0)); }

Result<ReferenceWeight> ReferenceWeight::upload(Executor& executor, const CsrMatrix& matrix,
                                                std::span<const float> values) {
  ReferenceWeight weight;
  const std::pair<const char*, std::span<const std::byte>> arrays[] = {
      {"row_offsets", std::as_bytes(std::span(matrix.row_offsets))},
      {"columns", std::as_bytes(std::span(matrix.column_indices))},
      {"values", std::as_bytes(values)}};
  for (const auto& [name, contents] : arrays) {
    SPARSMITH_ASSIGN_OR_RETURN(weight.arrays_.emplace_back(), DeviceAllocation::holding(executor, contents));
    weight.bindings_.push_back({name, weight.arrays_.back().address()});
  }
  return weight;
}

Result<ReferenceSums> compute_sums_on(Executor& executor, const ReferenceProblem& problem,
                                      const ReferenceWeight& weight) {
  ReferenceSums result;
  result.sums.resize(problem.sum_rows() * problem.output_columns());
  result.magnitudes.resize(result.sums.size());
  if (result.sums.empty()) return result;

  // The tokens of a column of X lie side by side, as neighbouring threads read them.
  const bool as_it_lies = problem.spec().layout == Layout::kFeatureMajor && problem.looks_at_all();
  const std::int64_t stride = as_it_lies ? problem.operand("x").stride : problem.output_columns();
  const auto turn = size_of(problem.spec().type) == 4 ? turned<std::uint32_t> : turned<std::uint16_t>;
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation x, as_it_lies
                                                           ? DeviceAllocation::holding(executor, problem.x().bytes())
                                                           : DeviceAllocation::holding(executor, turn(problem)));
  const std::size_t bytes = result.sums.size() * sizeof(double);
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation sums, DeviceAllocation::make(executor, bytes));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation magnitudes, DeviceAllocation::make(executor, bytes));

  LaunchBindings bindings;
  bindings.packed = weight.bindings();
  bindings.packed.push_back({"sums", sums.address()});
  bindings.packed.push_back({"magnitudes", magnitudes.address()});
  bindings.packed.push_back({"x", x.address()});
  LaunchPlan plan{
      .steps = {launch_of(text_of(problem.spec().type, problem.sum_rows(), problem.output_columns(), stride))}};
  plan.steps[0].grid[0] = (static_cast<std::int64_t>(result.sums.size()) + kThreads - 1) / kThreads;
  SPARSMITH_RETURN_IF_ERROR(executor.run(plan, bindings));
  SPARSMITH_RETURN_IF_ERROR(executor.read(std::as_writable_bytes(std::span(result.sums)), sums.address()));
  SPARSMITH_RETURN_IF_ERROR(executor.read(std::as_writable_bytes(std::span(result.magnitudes)), magnitudes.address()));
  return result;
}

}  // namespace sparsmith
