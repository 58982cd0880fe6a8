// One run of an operator: the arguments checked, the choice of the bucket put on the stream.
#include <fmt/format.h>

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

Status check_pointer(const char* name, const void* pointer, std::size_t alignment) {
  if (pointer == nullptr) return invalid_argument(fmt::format("{} is null", name));
  if (address_of(pointer) % alignment != 0) {
    return invalid_argument(fmt::format("{} = {} is not aligned to {} bytes", name, pointer, alignment));
  }
  return {};
}

// An operand that is there exactly when the operator has it.
Status check_optional(const char* name, const void* pointer, bool has, std::size_t alignment) {
  if (has) return check_pointer(name, pointer, alignment);
  if (pointer != nullptr)
    return invalid_argument(fmt::format("{} is given, but the operator was tuned without one", name));
  return {};
}

// `given`, or where that is 0, the `least` that rows without gaps have.
Result<std::int64_t> leading_dimension(const char* name, std::int64_t given, std::int64_t least) {
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
  if (choice.dense == nullptr) return bytes;
  return aligned(bytes) + static_cast<std::int64_t>(DenseMatmul::kWorkspaceBytes);
}

Result<MemberView> LoadedOperator::member(std::string_view member_name, std::int64_t tokens, std::int64_t ldy) const {
  if (tokens < 0) return invalid_argument(fmt::format("tokens = {} is negative", tokens));
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t ld,
                             leading_dimension("ldy", ldy, spec.layout == Layout::kTokenMajor ? spec.rows : tokens));
  return member_view(member_name, members, spec.layout, ld);
}

Result<LaunchBindings> LoadedOperator::bindings(const RunArguments& arguments) const {
  const std::size_t element = size_of(spec.type);
  SPARSMITH_RETURN_IF_ERROR(check_pointer("x", arguments.x, element));
  SPARSMITH_RETURN_IF_ERROR(check_pointer("y", arguments.y, element));
  SPARSMITH_RETURN_IF_ERROR(check_optional("bias", arguments.bias, spec.epilogue.bias, element));
  SPARSMITH_RETURN_IF_ERROR(check_optional("residual", arguments.residual, spec.epilogue.residual, element));
  if (arguments.beta != 0.0F && !spec.epilogue.beta) {
    return invalid_argument(fmt::format("beta = {}, but the operator was tuned without it", arguments.beta));
  }
  const bool token_major = spec.layout == Layout::kTokenMajor;
  LaunchBindings bindings;
  IntegerVariables& variables = bindings.variables;
  variables.n = arguments.tokens;
  SPARSMITH_ASSIGN_OR_RETURN(variables.ldx,
                             leading_dimension("ldx", arguments.ldx, token_major ? spec.cols : arguments.tokens));
  const std::int64_t row = token_major ? spec.rows : arguments.tokens;
  SPARSMITH_ASSIGN_OR_RETURN(variables.ldy, leading_dimension("ldy", arguments.ldy, row));
  SPARSMITH_ASSIGN_OR_RETURN(variables.ldr, leading_dimension("ldr", arguments.ldr, row));
  bindings.x = address_of(arguments.x);
  bindings.y = address_of(arguments.y);
  bindings.bias = address_of(arguments.bias);
  bindings.residual = address_of(arguments.residual);
  bindings.workspace = address_of(arguments.workspace);
  bindings.alpha = arguments.alpha;
  bindings.beta = arguments.beta;
  return bindings;
}

Status LoadedOperator::run(const CudaContext& context, const RunArguments& arguments, CUstream stream) const {
  if (arguments.tokens < 0) return invalid_argument(fmt::format("tokens = {} is negative", arguments.tokens));
  if (arguments.tokens == 0) return {};
  SPARSMITH_ASSIGN_OR_RETURN(const LaunchBindings bound, bindings(arguments));
  const Choice& choice = choice_for(arguments.tokens);
  if (arguments.alpha != 1.0F && !choice.uses_alpha) {
    return invalid_argument(fmt::format("alpha = {}, but the operator was tuned without it", arguments.alpha));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t workspace, workspace_bytes(choice, bound.variables));
  if (workspace > 0) SPARSMITH_RETURN_IF_ERROR(check_pointer("workspace", arguments.workspace, kWorkspaceAlignment));

  const CudaContext::Scope scope(context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  if (choice.dense != nullptr) {
    const auto plan_bytes = static_cast<DeviceAddress>(workspace) - DenseMatmul::kWorkspaceBytes;
    const DeviceAddress library_workspace = bound.workspace + plan_bytes;
    if (choice.plan.empty()) return choice.dense->enqueue(bound, library_workspace, stream);
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t product, choice.plan.workspace_bytes(bound.variables));
    SPARSMITH_RETURN_IF_ERROR(check_product_fits(spec, arguments.tokens, product));
    SPARSMITH_RETURN_IF_ERROR(choice.plan.check(bound));
    SPARSMITH_RETURN_IF_ERROR(choice.dense->enqueue_product(bound, bound.workspace, library_workspace, stream));
  }
  return choice.plan.launch(context.driver(), bound, stream);
}

}  // namespace sparsmith
