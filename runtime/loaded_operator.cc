// One run of an operator: the arguments checked, the choice of the bucket put on the stream.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/group_members.h"
#include "runtime/loaded_model.h"
#include "runtime/plan_sizes.h"
#include "runtime/token_bucket.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kWorkspaceAlignment = 256;

// REQUIRES: bytes is far from 2^63, as what evaluate_workspace() returns.
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

// An array of RunArguments, by the name of its operand.
struct GivenArray {
  std::string_view name;
  const void* pointer;
  const char* stride_name;
  std::int64_t stride;
};

// It is given exactly when the operator has it.
Status check_array(const Operand& operand, const void* pointer) {
  if (operand.present) return check_pointer(operand.name, pointer, size_of(operand.type));
  if (pointer != nullptr)
    return invalid_argument(fmt::format("{} is given, but the operator was tuned without one", operand.name));
  return {};
}

// `given`, or where that is 0, the `least` that rows without gaps have.
Result<std::int64_t> stride_of(const char* name, std::int64_t given, std::int64_t least) {
  if (given == 0) return least;
  if (given < least)
    return invalid_argument(fmt::format("{} = {} is less than the {} elements of a row", name, given, least));
  return given;
}

}  // namespace

const LoadedOperator::Choice& LoadedOperator::choice_for(std::int64_t tokens) const {
  return choices[bucket_for(tokens, buckets)];
}

Result<std::int64_t> LoadedOperator::workspace_bytes(const Choice& choice, const IntegerVariables& variables) const {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, choice.plan.workspace_bytes(variables));
  return choice.plan.has_matmul() ? aligned(bytes) + static_cast<std::int64_t>(DenseMatmul::kScratchBytes) : bytes;
}

Result<MemberView> LoadedOperator::member(std::string_view member_name, std::int64_t tokens, std::int64_t ldy) const {
  if (tokens < 0) return invalid_argument(fmt::format("tokens = {} is negative", tokens));
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t ld,
                             stride_of("ldy", ldy, spec.layout == Layout::kTokenMajor ? spec.rows : tokens));
  return member_view(member_name, members, spec.layout, ld);
}

Result<LaunchBindings> LoadedOperator::bindings(const RunArguments& arguments) const {
  const GivenArray given[] = {{"x", arguments.x, "ldx", arguments.ldx},
                              {"y", arguments.y, "ldy", arguments.ldy},
                              {"bias", arguments.bias, "", 0},
                              {"residual", arguments.residual, "ldr", arguments.ldr}};
  LaunchBindings bindings;
  bindings.variables.n = arguments.tokens;
  for (const Operand& operand : operands) {
    const GivenArray& array = *std::ranges::find(given, operand.name, &GivenArray::name);
    SPARSMITH_RETURN_IF_ERROR(check_array(operand, array.pointer));
    bindings.operands.set(operand.name, address_of(array.pointer));
    if (!operand.has_stride) continue;
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t stride,
                               stride_of(array.stride_name, array.stride, operand.length.of(arguments.tokens)));
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
  if (arguments.tokens == 0) return {};
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
