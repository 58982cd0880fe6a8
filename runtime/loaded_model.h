// A tuned file on a GPU. The handles of TunedModel point to it. Internal.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/packed_weight.h"
#include "runtime/bound_plan.h"
#include "runtime/cuda_context.h"
#include "runtime/kernel_module.h"
#include "runtime/tuned_file.h"
#include "sparsmith/tuned_model.h"

namespace sparsmith {

// The error for a kernel without a binary that runs on the device.
Status no_binary(const TunedKernel& kernel, const DeviceProperties& device);

// Immutable after load(), with all members.
struct LoadedOperator {
  struct Choice {
    BoundPlan plan;
    bool uses_alpha = true;  // false: alpha must be 1
  };

  std::string weight;  // name of the weight
  OperatorSpec spec;
  std::vector<Operand> operands;     // the operands of `spec`
  std::vector<GroupMember> members;  // of a group
  std::vector<Choice> choices;       // one for each bucket, in ascending order
  std::vector<ChoiceInfo> chosen;    // descriptions of `choices`

  // The operator with its plans bound. `names`: the look-ups for the plans of a packing; `matmul` may be empty.
  static Result<LoadedOperator> bind(const TunedWeight& weight, const TunedOperator& op,
                                     const std::shared_ptr<const CudaContext>& context,
                                     const std::function<PlanNames(const TunedPacking&)>& names);

  Result<std::int64_t> workspace_bytes(const Choice& choice, const IntegerVariables& variables) const;
  const Choice& choice_for(std::int64_t tokens) const;

  Result<MemberView> member(std::string_view member_name, std::int64_t tokens, std::int64_t ldy) const;

  // Checks the arguments and fills in the strides that are 0.
  Result<LaunchBindings> bindings(const RunArguments& arguments) const;
  Status run(const CudaContext& context, const RunArguments& arguments, CUstream stream) const;
};

// What the writers of a packing bind to besides the packing's own arrays.
struct WriterArrays {
  std::vector<PackedArray> places;
  Facts facts;  // of the packing and of the places
};
// Error: kUnsupported when the packing has no writers.
Result<WriterArrays> writer_arrays(const TunedWeight& weight, const TunedPacking& packing);

struct LoadedWeight {
  // Writes new values of one type into one packing.
  struct Writer {
    std::string packing;
    DataType source = DataType::kFloat32;
    BoundPlan plan;
    std::string_view operand = kWriterOperand;
  };

  WeightInfo info;
  std::vector<LoadedOperator> operators;
  std::vector<Writer> writers;  // of all packings; empty unless the model is updatable

  // `packing`: the one to write; empty: all. `workspace`: of the writers, if they ask for it.
  Status set_values(const CudaContext& context, const void* values, DataType source, CUstream stream,
                    std::string_view packing = {}, const void* workspace = nullptr) const;
};

struct LoadedModel {
  std::shared_ptr<const CudaContext> context;
  DeviceBuffer memory;  // every packed array, each aligned to 256 bytes
  std::map<std::string, std::unique_ptr<KernelModule>> kernels;
  std::vector<LoadedWeight> weights;

  static Result<std::shared_ptr<const LoadedModel>> load(const TunedContents& contents,
                                                         std::shared_ptr<const CudaContext> context,
                                                         const LoadOptions& options = {});
};

}  // namespace sparsmith
