#include "tuner/verify/reference_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

// The kernel of spmm with its arguments for `rows` times `tokens` sums.
KernelText spmm_text(const OperatorSpec& spec, std::int64_t rows, std::int64_t tokens, std::int64_t column_stride) {
  return {
      .name = reference_kernel_name(spec),
      .summary = "sums of products and of their magnitudes in fp64: the reference of every check",
      .threads = kThreads,
      .architecture = {},
      .headers = {"snippets/kernels/reference_spmm.cuh"},
      .lines = {{fmt::format("using Value = {}", device_type(spec.type)), "of X"},
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

// The steps from one element of an operand to the next.
struct Strides {
  std::int64_t feature = 0;
  std::int64_t token = 0;
};

// The kernel of sddmm with its arguments for `tokens` products a sum.
KernelText sddmm_text(const OperatorSpec& spec, std::int64_t tokens, Strides x, Strides dy) {
  return {
      .name = reference_kernel_name(spec),
      .summary = "sums over tokens and of their magnitudes in fp64: the reference of every check",
      .threads = kThreads,
      .architecture = {},
      .headers = {"snippets/kernels/reference_sddmm.cuh"},
      .lines = {{fmt::format("using Value = {}", device_type(spec.type)), "of X and dY"},
                {"using Kernel = ReferenceSddmm<Value>", "one thread a nonzero"}},
      .parameters = {{"const i64*", "row_offsets", packed_array("row_offsets")},
                     {"const u32*", "columns", packed_array("columns")},
                     {"const Value*", "x", packed_array("x")},
                     {"const Value*", "dy", packed_array("dy")},
                     {"double*", "sums", packed_array("sums")},
                     {"double*", "magnitudes", packed_array("magnitudes")},
                     {"i64", "rows", integer(spec.rows)},
                     {"i64", "tokens", integer(tokens)},
                     {"i64", "x_feature", integer(x.feature)},
                     {"i64", "x_token", integer(x.token)},
                     {"i64", "dy_feature", integer(dy.feature)},
                     {"i64", "dy_token", integer(dy.token)}},
      .body =
          "Kernel::run(row_offsets, columns, x, dy, sums, magnitudes, rows, tokens, x_feature, x_token, dy_feature, "
          "dy_token, kThreads);"};
}

// An operand on the device, as a kernel reads it.
struct Uploaded {
  const char* name;
  DeviceAllocation array;
};

// Runs the kernel of `text` on the weight and these operands. `result` has room for the sums.
Status run_on(Executor& executor, const KernelText& text, const ReferenceWeight& weight,
              std::span<const Uploaded> operands, ReferenceSums& result) {
  const std::size_t bytes = result.sums.size() * sizeof(double);
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation sums, DeviceAllocation::make(executor, bytes));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation magnitudes, DeviceAllocation::make(executor, bytes));
  LaunchBindings bindings;
  bindings.packed = weight.bindings();
  bindings.packed.push_back({"sums", sums.address()});
  bindings.packed.push_back({"magnitudes", magnitudes.address()});
  for (const auto& [name, array] : operands) bindings.packed.push_back({name, array.address()});
  LaunchPlan plan{.steps = {launch_of(text)}};
  plan.steps[0].grid[0] = (static_cast<std::int64_t>(result.sums.size()) + kThreads - 1) / kThreads;
  SPARSMITH_RETURN_IF_ERROR(executor.run(plan, bindings));
  SPARSMITH_RETURN_IF_ERROR(executor.read(std::as_writable_bytes(std::span(result.sums)), sums.address()));
  return executor.read(std::as_writable_bytes(std::span(result.magnitudes)), magnitudes.address());
}

Status sum_columns(Executor& executor, const ReferenceProblem& problem, const ReferenceWeight& weight,
                   ReferenceSums& result) {
  const OperatorSpec& spec = problem.spec();
  // The tokens of a column of X lie side by side, as neighbouring threads read them.
  const bool as_it_lies = spec.layout == Layout::kFeatureMajor && problem.looks_at_all();
  const std::int64_t stride = as_it_lies ? problem.operand("x").stride : problem.output_columns();
  const auto turn = size_of(spec.type) == 4 ? turned<std::uint32_t> : turned<std::uint16_t>;
  Uploaded x{"x", {}};
  SPARSMITH_ASSIGN_OR_RETURN(x.array, as_it_lies ? DeviceAllocation::holding(executor, problem.x().bytes())
                                                 : DeviceAllocation::holding(executor, turn(problem)));
  const KernelText text = spmm_text(spec, problem.sum_rows(), problem.output_columns(), stride);
  return run_on(executor, text, weight, {&x, 1}, result);
}

Status sum_tokens(Executor& executor, const ReferenceProblem& problem, const ReferenceWeight& weight,
                  ReferenceSums& result) {
  std::array<Uploaded, 2> operands{{{"x", {}}, {"dy", {}}}};
  std::array<Strides, 2> strides;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const DrawnOperand& drawn = problem.operand(operands[i].name);
    SPARSMITH_ASSIGN_OR_RETURN(operands[i].array, DeviceAllocation::holding(executor, drawn.contents.bytes()));
    const bool token_major = problem.spec().layout == Layout::kTokenMajor;
    strides[i] = token_major ? Strides{1, drawn.stride} : Strides{drawn.stride, 1};
  }
  return run_on(executor, sddmm_text(problem.spec(), problem.tokens(), strides[0], strides[1]), weight, operands,
                result);
}

}  // namespace

std::string reference_kernel_name(const OperatorSpec& spec) {
  return fmt::format("sparsmith_reference_{}_{}", spec.multiplies_weight() ? "spmm" : "sddmm", short_name(spec.type));
}

Result<KernelSource> reference_kernel(const OperatorSpec& spec) {
  return assemble(spec.multiplies_weight() ? spmm_text(spec, 0, 0, 0) : sddmm_text(spec, 0, {}, {}));
}

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
  const auto sum = problem.spec().multiplies_weight() ? sum_columns : sum_tokens;
  SPARSMITH_RETURN_IF_ERROR(sum(executor, problem, weight, result));
  return result;
}

}  // namespace sparsmith
