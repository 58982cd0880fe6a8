// One run of an operator: checks the arguments, and puts the choice of the bucket on the stream.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/group_members.h"
#include "runtime/loaded_model.h"
#include "runtime/token_bucket.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kWorkspaceAlignment = 256;

// REQUIRES: `bytes` is far below 2^63, like the results of evaluate_workspace().
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

DeviceAddress address_of(const void* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }

Status check_pointer(std::string_view name, const void* pointer, std::size_t alignment) {
  if (pointer == nullptr) return invalid_argument(fmt::format("{} is null", name));
  if (address_of(pointer) % alignment != 0) {
    return invalid_argument(fmt::format("{} = {} is not aligned to {} bytes", name, pointer, alignment));
  }
  return {};
}

// `given`, or for 0 `least`, the stride of lines without gaps.
Result<std::int64_t> stride_of(std::string_view operand, std::int64_t given, std::int64_t least) {
  if (given == 0) return least;
  if (given < least)
    return invalid_argument(fmt::format("ld of {} = {} is less than the {} elements of a line", operand, given, least));
  return given;
}

// Values of sddmm without tokens.
Status sum_nothing(const OperatorSpec& spec, const CudaContext& context, const RunArguments& arguments,
                   CUstream stream) {
  if (arguments.beta == 1.0F || spec.nnz == 0) return {};
  if (arguments.beta != 0.0F)
    return invalid_argument(fmt::format("beta = {}: without tokens it must be 0 or 1", arguments.beta));
  const void* const values = arguments.operands.value_or("values", {}).data;
  SPARSMITH_RETURN_IF_ERROR(check_pointer("values", values, size_of(spec.type)));
  const CudaContext::Scope scope(context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  const std::size_t bytes = static_cast<std::size_t>(spec.nnz) * size_of(spec.type);
  const CudaDriver& driver = context.driver();
  return driver.check(driver.MemsetD8Async(address_of(values), 0, bytes, stream), "zeroing values");
}

}  // namespace

const LoadedOperator::Choice& LoadedOperator::choice_for(std::int64_t tokens) const {
  return choices[bucket_for(tokens, chosen, &ChoiceInfo::tokens)];
}

Result<std::int64_t> LoadedOperator::workspace_bytes(const Choice& choice, const IntegerVariables& variables) const {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, choice.plan.workspace_bytes(variables));
  return choice.plan.has_matmul() ? aligned(bytes) + static_cast<std::int64_t>(DenseMatmul::kScratchBytes) : bytes;
}

Result<MemberView> LoadedOperator::member(std::string_view member_name, std::int64_t tokens, std::int64_t ld) const {
  if (tokens < 0) return invalid_argument(fmt::format("tokens = {} is negative", tokens));
  if (!spec.multiplies_weight())
    return unsupported("values have the order of CSR: those of a member are not lines of them");
  if (spec.epilogue.gated) return unsupported("the operator is gated: its members have no outputs of their own");
  const bool in_x = spec.kind == OperatorKind::kSpmmTransposed;
  SPARSMITH_ASSIGN_OR_RETURN(
      const std::int64_t stride,
      stride_of(in_x ? "x" : "y", ld, spec.layout == Layout::kTokenMajor ? spec.weight_rows() : tokens));
  return member_view(member_name, members, spec.layout, stride);
}

Result<LaunchBindings> LoadedOperator::bindings(const RunArguments& arguments) const {
  for (const auto& [name, array] : arguments.operands) {
    if (std::ranges::find(operands, name, &Operand::name) == operands.end())
      return invalid_argument(fmt::format("there is no operand {:.100}", name));
  }
  LaunchBindings bindings;
  bindings.variables.n = arguments.tokens;
  for (const Operand& operand : operands) {
    const OperandArray array = arguments.operands.value_or(operand.name, {});
    if (operand.present) {
      SPARSMITH_RETURN_IF_ERROR(check_pointer(operand.name, array.data, size_of(operand.type)));
    } else if (array.data != nullptr) {
      return invalid_argument(fmt::format("{} is given, but the operator was tuned without one", operand.name));
    }
    bindings.operands.set(operand.name, address_of(array.data));
    if (!operand.has_stride) continue;
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t stride,
                               stride_of(operand.name, array.ld, operand.length.of(arguments.tokens)));
    bindings.variables.strides.set(operand.name, stride);
  }
  if (arguments.beta != 0.0F && !spec.epilogue.beta) {
    return invalid_argument(fmt::format("beta = {}, but the operator was tuned without it", arguments.beta));
  }
  bindings.workspace = address_of(arguments.workspace);
  bindings.scalars.set("alpha", arguments.alpha);
  bindings.scalars.set("beta", arguments.beta);
  return bindings;
}

Status LoadedOperator::run(const CudaContext& context, const RunArguments& arguments, CUstream stream) const {
  if (arguments.tokens < 0) return invalid_argument(fmt::format("tokens = {} is negative", arguments.tokens));
  if (arguments.tokens == 0) return spec.multiplies_weight() ? Status() : sum_nothing(spec, context, arguments, stream);
  SPARSMITH_ASSIGN_OR_RETURN(LaunchBindings bound, bindings(arguments));
  const Choice& choice = choice_for(arguments.tokens);
  if (arguments.alpha != 1.0F && !choice.uses_alpha) {
    return invalid_argument(fmt::format("alpha = {}, but the operator was tuned without it", arguments.alpha));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t workspace, workspace_bytes(choice, bound.variables));
  if (workspace > 0) SPARSMITH_RETURN_IF_ERROR(check_pointer("workspace", arguments.workspace, kWorkspaceAlignment));

  const CudaContext::Scope scope(context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  if (choice.plan.has_matmul())  // at the workspace's end
    bound.scratch = bound.workspace + static_cast<DeviceAddress>(workspace) - DenseMatmul::kScratchBytes;
  return choice.plan.launch(context.driver(), bound, stream);
}

}  // namespace sparsmith
