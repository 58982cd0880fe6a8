// A tuned file on a GPU, behind TunedModel's handles. Internal.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bound_plan.h"
#include "runtime/cuda_context.h"
#include "runtime/kernel_module.h"
#include "runtime/tuned_file.h"
#include "sparsmith/tuned_model.h"

namespace sparsmith {

// Immutable after load(), like all that it holds.
struct LoadedOperator {
  struct Choice {
    BoundPlan plan;
    bool uses_alpha = true;  // false: only alpha = 1 is right
  };

  std::string name;
  OperatorSpec spec;
  std::vector<Operand> operands;  // those of `spec`
  std::int64_t nnz = 0;
  std::int64_t gpu_bytes = 0;
  std::vector<GroupMember> members;   // of a group
  std::vector<std::int64_t> buckets;  // ascending
  std::vector<Choice> choices;        // one a bucket

  Result<std::int64_t> workspace_bytes(const Choice& choice, const IntegerVariables& variables) const;
  const Choice& choice_for(std::int64_t tokens) const;

  Result<MemberView> member(std::string_view member_name, std::int64_t tokens, std::int64_t ldy) const;

  // Checks the arguments and fills in the leading dimensions that are 0.
  Result<LaunchBindings> bindings(const RunArguments& arguments) const;
  Status run(const CudaContext& context, const RunArguments& arguments, CUstream stream) const;
};

struct LoadedModel {
  std::shared_ptr<const CudaContext> context;
  DeviceBuffer weights;  // every packed array, each aligned to 256 bytes
  std::map<std::string, std::unique_ptr<KernelModule>> kernels;
  std::vector<LoadedOperator> operators;

  static Result<std::shared_ptr<const LoadedModel>> load(const TunedContents& contents,
                                                         std::shared_ptr<const CudaContext> context);
};

}  // namespace sparsmith
