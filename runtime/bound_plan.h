// A launch plan made ready for one device: kernels and packed arrays looked up once, so that a launch evaluates
// expressions, fills arguments and calls the driver, and neither allocates nor looks anything up. Internal.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/dense_matmul.h"
#include "runtime/executor.h"
#include "runtime/kernel_module.h"
#include "runtime/launch_plan.h"

namespace sparsmith {

// Where a plan's names lead. Null or nothing: there is none of that name.
struct PlanNames {
  std::function<const KernelModule*(const std::string&)> kernel;
  std::function<Result<DeviceAddress>(const std::string&)> packed;
  const Facts* facts = nullptr;  // of the packed weight; null: there are none
  // Of the operator, for matmul steps.
  std::function<Result<std::shared_ptr<const DenseMatmul>>()> matmul;
  int compute_capability = 0;  // of the device: before 90, steps are launched plainly whatever they say
};

// Immutable after bind(): any number of threads may launch one at a time each, on streams of their own. The kernels
// and arrays it was bound to must outlive it.
class BoundPlan {
 public:
  // An empty plan, which launches nothing.
  BoundPlan() = default;

  // Error: kNotFound for a kernel, array or fact that does not exist; kInvalidInput for what no launch can hold,
  // and for arguments that are not the kernel's parameters.
  static Result<BoundPlan> bind(const LaunchPlan& plan, const PlanNames& names);

  Result<std::int64_t> workspace_bytes(const IntegerVariables& variables) const;

  // Ok when every step of a run with these bindings is within its limits and inside of a workspace of
  // workspace_bytes(). Error: kInvalidArgument.
  Status check(const LaunchBindings& bindings) const;

  // Puts every step on `stream`, or none where check() has an error; capture-safe. `bindings.packed` is not looked at.
  // REQUIRES: the context is current.
  Status launch(const CudaDriver& driver, const LaunchBindings& bindings, CUstream stream) const;

  bool empty() const { return steps_.empty(); }
  bool has_matmul() const;  // and needs bindings.scratch

 private:
  struct Argument {
    PlanArgument::Kind kind;
    DeviceAddress packed = 0;
    std::string name;  // of an operand or a scalar
    IntegerExpression value;
  };
  struct Step {
    PlanStep plan;  // sizes and attributes; its arguments moved to `arguments`
    const KernelModule* kernel = nullptr;
    std::vector<Argument> arguments;
    std::shared_ptr<const DenseMatmul> matmul;
    DeviceAddress weight = 0;  // of `matmul`
  };

  struct Launch;

  static Result<std::uint64_t> value_of(const Argument& argument, const LaunchBindings& bindings,
                                        std::int64_t workspace_bytes);
  static Status prepare(const Step& step, const LaunchBindings& bindings, std::int64_t workspace, Launch& launch);
  static Status launch_kernel(const CudaDriver& driver, const Step& step, Launch& launch, CUstream stream);
  // Ok when the product fits the workspace: its address, or 0 where the step computes the whole operator.
  static Result<DeviceAddress> product_of(const Step& step, const LaunchBindings& bindings, std::int64_t workspace);
  static Status launch_matmul(const Step& step, const LaunchBindings& bindings, std::int64_t workspace,
                              CUstream stream);
  static Status launch_zero(const CudaDriver& driver, const Step& step, const LaunchBindings& bindings,
                            std::int64_t workspace, CUstream stream);

  std::vector<Step> steps_;
  IntegerExpression workspace_bytes_;
};

}  // namespace sparsmith
